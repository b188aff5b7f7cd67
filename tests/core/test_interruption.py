"""A signal becomes an exception that is sure to arrive."""

import signal
import subprocess
import sys
import textwrap

# The first exception is lost inside a finaliser, where Python ignores exceptions.
LOST = """
    import os, signal, sys, time
    from ragsweep.core import interruption

    class Deaf:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)

    interruption.raise_on_signals()
    try:
        Deaf()
        for _ in range(100):
            time.sleep(0.1)
    except interruption.Interrupted as signalled:
        interruption.stop_raising()
        time.sleep(0.6)  # and then there is peace
        sys.exit(signalled.exit_status)
"""


def test_exception_that_is_lost_in_a_finaliser_is_raised_again() -> None:
    command = [sys.executable, "-c", textwrap.dedent(LOST)]
    assert subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 143


def test_ignored_interrupt_stays_ignored() -> None:
    code = (
        "import os, signal; from ragsweep.core import interruption\n"
        "interruption.raise_on_signals(); os.kill(os.getpid(), signal.SIGINT)"
    )
    ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
    assert subprocess.run([sys.executable, "-c", code], check=False, preexec_fn=ignore).returncode == 0


def test_an_infinite_time_limit_is_no_limit() -> None:
    code = (
        "from ragsweep.core import interruption; import time\nwith interruption.deadline(float('inf')): time.sleep(0.2)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_alarm_from_before_the_start_of_the_process_ends_it_like_a_termination_signal() -> None:
    code = """
        import signal, sys, time
        from ragsweep.core import interruption
        interruption.raise_on_signals()
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            time.sleep(20)
        except interruption.Interrupted as signalled:
            interruption.stop_raising()
            sys.exit(signalled.exit_status)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    assert subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 128 + signal.SIGALRM
