"""The programs in docs/examples whose graphs grow."""

import sysconfig
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from test_examples import load, run

from dagprofiler import Profile

growing = load("growing_graphs")
words = load("word_counts")


def edges(profile):
    return {(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]}


def test_files_are_processed_as_they_are_found_and_merged_when_no_more_can_come():
    profile = growing.files(3).run()
    assert profile.final_outputs == {"text": "file 0 file 1 file 2"}
    names = profile.dag_structure["nodes"]
    assert names == ["download", "process[0]", "process[1]", "process[2]", "merge"]
    assert growing.files(0).run().final_outputs == {"text": ""}
    profile = growing.book().run()
    assert profile.final_outputs == {"book": ["title", "page on rules", "page on graphs"]}
    fired = [firing["rule"] for firing in profile.sections["origins"]["fired"]]
    assert fired == ["typeset_chapters", "add_title", "reduce bind"]
    for quality, branch in ((0.7, "publish"), (0.3, "repair")):
        assert edges(growing.branches(quality).run()) == {("check", branch)}


def test_a_recursion_unrolls_down_to_one_and_a_late_merge_has_all_producers():
    profile = growing.recursion(6).run(keep=["start", *[f"step {i}" for i in range(1, 9)]])
    results = [profile.outputs[name]["n"] for name in profile.dag_structure["nodes"]]
    assert results == [6, 3, 10, 5, 16, 8, 4, 2, 1]
    assert len(edges(profile)) == 8
    profile = growing.late_merge().run()
    assert profile.final_outputs == {"total": 1 + 10 + 20 + 20}
    assert len(profile.dag_structure["nodes"]) == 7
    assert len(edges(profile)) == 7
    assert sum(target == "merge" for _, target in edges(profile)) == 4
    assert profile.sections["origins"]["never_fired"] == []


def test_words_of_the_standard_library_are_counted_by_package_and_letter():
    folder = sysconfig.get_path("stdlib")
    profile = words.build_dag(max_packages=5).run()
    packages = sorted(file.parent for file in Path(folder).glob("*/__init__.py"))[:5]
    counted = Counter()
    for package in packages:
        for file in package.glob("*.py"):
            text = file.read_text(encoding="utf-8", errors="replace").lower()
            counted.update(words.WORD.findall(text))
    assert profile.final_outputs["total"] == sum(counted.values())
    letters = {word[0] for word in counted}
    assert set(profile.final_outputs["most"]) == letters
    assert len(profile.dag_structure["nodes"]) == 1 + 5 + len(letters) + 1
    with ThreadPoolExecutor(2) as pool:
        again = words.build_dag(max_packages=5).run(executor=pool)
    assert again.final_outputs == profile.final_outputs


def test_programs_run_as_their_readers_run_them(tmp_path):
    assert "{'total': 51}" in run("growing_graphs", tmp_path)
    run("word_counts", tmp_path)
    loaded = Profile.load(str(tmp_path / "word_counts_profile.json"))
    assert loaded.sections["origins"]["records"]
