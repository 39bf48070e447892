"""A program in a host: its own process group, its output in files, and a guaranteed end."""

import os
import signal
import subprocess

from .wait import PATIENCE_S, LabError, wait_until

# Time a program has to end after SIGTERM before it is killed, in seconds.
GRACE_S = 10.0
TAIL_LINES = 40


class Process:
    """A started program. Standard output goes to `NAME.out`, standard error to `NAME.err`; a restart appends.

    Standard input is a pipe that stays open. The programs of the lab end when it closes, so they end with the lab.
    """

    def __init__(self, argv, name, directory, env):
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.argv = [str(word) for word in argv]
        self.out = directory / f"{name}.out"
        self.err = directory / f"{name}.err"
        self._out_start = self.out.stat().st_size if self.out.exists() else 0
        with self.out.open("ab") as out, self.err.open("ab") as err:
            self._popen = subprocess.Popen(
                self.argv, stdin=subprocess.PIPE, stdout=out, stderr=err, env=env, start_new_session=True
            )

    @property
    def pid(self):
        """Id of the program itself (`ip netns exec` replaces itself with the program)."""
        return self._popen.pid

    @property
    def alive(self):
        return self._popen.poll() is None

    @property
    def returncode(self):
        return self._popen.poll()

    def output(self):
        """Returns what the program has written to standard output since its last start."""
        with self.out.open("rb") as file:
            file.seek(self._out_start)
            return file.read().decode(errors="replace")

    def wait_for_output(self, text, timeout=PATIENCE_S):
        """Waits until the output contains `text`. Raises `LabError` if the program ends first."""

        def there():
            # The order matters: a program may write and end between the two checks.
            ended = not self.alive
            if text in self.output():
                return True
            if ended:
                raise LabError(f"{self.name} ended with {self.returncode} before writing {text!r}\n{self.tail()}")
            return False

        wait_until(there, f"{self.name} to write {text!r}", timeout, self.tail)

    def write(self, text):
        """Writes to standard input of the program."""
        self._popen.stdin.write(text.encode())
        self._popen.stdin.flush()

    def close_input(self):
        """Closes standard input, which tells the programs of the lab to finish."""
        if self._popen.stdin and not self._popen.stdin.closed:
            self._popen.stdin.close()

    def wait(self, timeout=PATIENCE_S):
        """Waits for the end and returns the exit status."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name} did not end within {timeout:.0f} s\n{self.tail()}") from None

    def stop(self):
        """Sends SIGTERM, then SIGKILL if the program does not end; returns the exit status. Has no effect after the end."""
        return self._end(signal.SIGTERM)

    def kill(self):
        """Sends SIGKILL: to peers it looks like a crash or a power cut."""
        return self._end(signal.SIGKILL)

    def quit(self):
        """Sends SIGQUIT, which some programs take as the order to end at once; then SIGKILL as in `stop`."""
        return self._end(signal.SIGQUIT)

    def rss_kib(self, field="VmRSS"):
        """Returns memory of the program in KiB: `VmRSS` now, `VmHWM` at its peak (proc(5))."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise LabError(f"{self.name} has no {field}: it has ended")

    def own_kib(self):
        """Returns the program's own memory in KiB: all in RAM but pages of files. A leak makes it grow.

        Pages of the program's file come and go without a leak: a node gives them back now and then, and the kernel maps them again when they are run.
        """
        return self.rss_kib("RssAnon") + self.rss_kib("RssShmem")

    def tail(self):
        """Returns the last lines of both files, for error messages."""
        parts = [f"$ {' '.join(self.argv)}  (exit code: {self.returncode})"]
        for path in (self.out, self.err):
            lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            if lines:
                parts += [f"--- {path}", *lines]
        return "\n".join(parts)

    def _end(self, number):
        # Signals the group only before its leader is reaped: until then no other process can have its id.
        if self.alive:
            os.killpg(self.pid, number)
            try:
                self._popen.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self._popen.wait()
        self.close_input()
        return self._popen.returncode
