"""Perfetto's trace processor, asked by remote procedure calls."""

import subprocess
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "trace_engine.cjs"

#: What is wrong: errors, and spans without an end.
ERRORS = """
    select name, value from stats where severity in ('error', 'data_loss') and value > 0
    union all select name, dur from slice where dur < 0
"""

#: How many bytes of a trace are handed over at once.
PIECE = 1 << 20


class TraceProcessor:
    """A trace processor, with one trace in it at a time."""

    def __init__(self, process):
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        self._protos = ProtoFactory(PlatformDelegate())
        self._kinds = self._protos.TraceProcessorRpc
        self._process = process
        self._count = 0

    def load(self, trace):
        """Forget the trace that is loaded, and load this one, in which nothing is wrong.

        Returns what answers queries.
        """
        self._call(self._kinds.TPM_RESET_TRACE_PROCESSOR)
        for begin in range(0, len(trace), PIECE):
            piece = trace[begin : begin + PIECE]
            done = self._call(self._kinds.TPM_APPEND_TRACE_DATA, append_trace_data=piece)
            assert not done.append_result.error
        done = self._call(self._kinds.TPM_FINALIZE_TRACE_DATA)
        assert not done.finalize_data_result.error
        assert self.rows(ERRORS) == []
        return self.rows

    def rows(self, sql):
        from perfetto.common.query_result_iterator import QueryResultIterator

        reply = self._call(self._kinds.TPM_QUERY_STREAMING, sql=sql)
        names, batches = list(reply.query_result.column_names), []
        while True:
            assert not reply.query_result.error
            batches += reply.query_result.batch
            if batches[-1].is_last_batch:
                break
            reply = self._reply()
        return [
            tuple(getattr(row, name) for name in names)
            for row in QueryResultIterator(names, batches)
        ]

    def _call(self, kind, sql=None, **content):
        stream = self._protos.TraceProcessorRpcStream()
        message = stream.msg.add(request=kind, seq=self._count, **content)
        if sql is not None:
            message.query_args.sql_query = sql
        self._count += 1
        self._process.stdin.write(stream.SerializeToString())
        self._process.stdin.flush()
        return self._reply()

    def _reply(self):
        """Return the next message of the stream: tag, length as a varint, content."""
        output = self._process.stdout
        assert output.read(1) == b"\n"
        size = shift = 0
        more = True
        while more:
            byte = output.read(1)[0]
            size |= (byte & 127) << shift
            shift, more = shift + 7, byte > 127
        message = self._kinds()
        message.ParseFromString(output.read(size))
        assert not message.fatal_error
        return message


@contextmanager
def running(node, folder):
    """Have a trace processor run, whose code is in a folder."""
    command = [node, SCRIPT, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **pipes) as process:
        try:
            yield TraceProcessor(process)
        finally:
            process.kill()
