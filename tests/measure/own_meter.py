class Own:
    """A user's meter that returns, or raises, what the test says."""

    reason = None

    def __init__(self, *results, name="own", unit="1", start=None, log=None):
        self.name, self.unit = name, unit
        self._results = iter(results)
        self._start = iter(start or ())
        self._log = [] if log is None else log

    def start(self):
        self._log.append(f"{self.name} starts")
        failure = next(self._start, None)
        if failure is not None:
            raise failure

    def stop(self):
        self._log.append(f"{self.name} stops")
        result = next(self._results, 0)
        if isinstance(result, BaseException):
            raise result
        return result
