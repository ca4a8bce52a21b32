"""`mog` as if on Windows: modules and functions that Python does not have there are hidden."""

import os
import signal
import sys

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
OF_OS = ("fchmod", "fchown", "fork", "getgid", "geteuid", "getpgid", "getuid", "killpg", "mkfifo", "pread", "pwrite")
OF_SIGNAL = ("ITIMER_REAL", "SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_sigmask", "setitimer")

if __name__ == "__main__":
    for name in MODULES:
        sys.modules[name] = None
    for module, names in ((os, (*OF_OS, "sched_getaffinity", "setsid")), (signal, OF_SIGNAL)):
        for name in names:
            delattr(module, name)
    from mog_assets.cli import main

    sys.argv[0] = "mog"
    main()
