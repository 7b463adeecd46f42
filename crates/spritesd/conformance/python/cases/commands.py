"""Commands without a terminal, each on a WebSocket of its own."""

import io
import os
import re

from harness import Sink, absent, equal, operation, true
from sprites.exceptions import ExitError, TimeoutError
from sprites.websocket import WSCommand

import sprites

MEGABYTE = 1 << 20


@operation("exec: bytes of stdout and stderr, exact")
async def exact(t):
    box = await t.box()
    script = "import sys; b = bytes(range(256)) * 5; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])"
    every = bytes(range(256)) * 5
    done = await t.do(box.run, "python3", "-c", script, capture_output=True)
    equal((done.returncode, done.stdout, done.stderr), (0, every, every[::-1]))
    equal(done.args, ["python3", "-c", script])
    nothing = await t.do(box.run, "true", capture_output=True)
    equal((nothing.stdout, nothing.stderr), (b"", b""))
    uncaptured = await t.do(box.run, "echo", "unheard")
    equal((uncaptured.returncode, uncaptured.stdout, uncaptured.stderr), (0, None, None))


@operation("exec: exit codes 0, 1, 126, 127, 128+n, 255")
async def exit_codes(t):
    box = await t.box()
    for code in (0, 1, 2, 125, 255):
        done = await t.do(box.run, "sh", "-c", f"echo out; echo err >&2; exit {code}", capture_output=True)
        equal((done.returncode, done.stdout, done.stderr), (code, b"out\n", b"err\n"))
    for name, number in (("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11)):
        done = await t.do(box.run, "sh", "-c", f"kill -{name} $$", capture_output=True)
        equal(done.returncode, 128 + number, name)
    missing = await t.do(box.run, "no-such-program", capture_output=True)
    equal((missing.returncode, missing.stdout), (127, b""))
    true(b"no-such-program" in missing.stderr, missing.stderr)
    refused = await t.do(box.run, "/etc/passwd", capture_output=True)
    equal(refused.returncode, 126)
    nowhere = await t.do(box.run, "true", cwd="/no/such/folder", capture_output=True)
    true(nowhere.returncode != 0 and nowhere.stderr, nowhere)


@operation("exec: arguments arrive as sent")
async def arguments(t):
    box = await t.box()
    sent = [
        "",
        " ",
        "two words",
        "$HOME",
        "`id`",
        "a\nb\tc",
        "ünïcödé 🦀",
        "'\"\\",
        "*",
        "-n",
        "a=b&c=d#e?f%20+g",
        "x" * 5000,
    ]
    done = await t.do(box.run, "python3", "-c", "import sys; print(sys.argv[1:])", *sent, capture_output=True)
    equal(done.stdout.decode(), f"{sent}\n")


@operation("exec: environment and working directory")
async def environment(t):
    box = await t.box()
    values = {"GREETING": "hello wörld = & %41", "EMPTY": "", "LINES_": "a\nb"}
    script = "import os; print([os.environ.get(k) for k in ('GREETING', 'EMPTY', 'LINES_', 'HOME', 'USER')])"
    done = await t.do(box.run, "python3", "-c", script, env=values, capture_output=True)
    equal(done.stdout.decode(), f"{[*values.values(), '/home/sprite', 'sprite']}\n")
    equal((await t.do(box.run, "pwd", capture_output=True)).stdout, b"/home/sprite\n")
    equal((await t.do(box.run, "pwd", cwd="/tmp", env={"A": "b"}, capture_output=True)).stdout, b"/tmp\n")


@operation("exec: every way to run a command")
async def every_way(t):
    box = await t.box()
    both = ("sh", "-c", "echo out; echo err >&2; exit $0")
    # run: with a check.
    equal((await t.do(box.run, *both, "0", check=True, capture_output=True)).stdout, b"out\n")
    error = await t.raises(ExitError, box.run, *both, "3", check=True, capture_output=True)
    equal((error.exit_code(), error.stdout, error.stderr), (3, b"out\n", b"err\n"))
    true(sprites.ExecError is ExitError, "one type under two names")
    # Cmd.run: into what one gives it.
    out, err = Sink(), Sink()
    command = box.command(*both, "0", stdout=out, stderr=err)
    equal(command.exit_code, -1)
    equal(await t.do(command.run), None)
    equal((command.exit_code, out.getvalue(), err.getvalue()), (0, b"out\n", b"err\n"))
    await t.raises(RuntimeError, command.run)
    command = box.command(*both, "4")
    error = await t.raises(ExitError, command.run)
    equal((error.exit_code(), error.stdout, error.stderr, command.exit_code), (4, b"", b"err\n", 4))
    # Cmd.output: stdout alone.
    equal(await t.do(box.command(*both, "0").output), b"out\n")
    error = await t.raises(ExitError, box.command(*both, "5").output)
    equal((error.exit_code(), error.stdout, error.stderr), (5, b"out\n", b"err\n"))
    await t.raises(RuntimeError, box.command(*both, "0", stdout=out).output)
    # Cmd.combined_output: stdout, then stderr.
    equal(await t.do(box.command(*both, "0").combined_output), b"out\nerr\n")
    error = await t.raises(ExitError, box.command(*both, "6").combined_output)
    equal((error.exit_code(), error.stdout), (6, b"out\nerr\n"))
    await t.raises(RuntimeError, box.command(*both, "0", stdout=out).combined_output)
    await t.raises(RuntimeError, box.command(*both, "0", stderr=err).combined_output)


@operation("exec: stdin and its end")
async def stdin(t):
    box = await t.box()
    every = bytes(range(256)) * 40
    equal(await t.do(box.command("cat", stdin=io.BytesIO(every)).output), every)
    equal(await t.do(box.command("cat", stdin=io.BytesIO(b"")).output), b"")
    # Without a stdin its end comes at once.
    equal(await t.do(box.command("cat").output), b"")
    # A command that reads only a part of it, and one that reads nothing.
    equal(await t.do(box.command("head", "-c", "3", stdin=io.BytesIO(every)).output), every[:3])
    equal(await t.do(box.command("echo", "done", stdin=io.BytesIO(every)).output), b"done\n")


@operation("exec: 1 MB each way")
async def megabyte(t):
    box = await t.box()
    data = os.urandom(MEGABYTE + 17)
    equal(await t.do(box.command("cat", stdin=io.BytesIO(data)).output), data)
    script = (
        "import sys; b = bytes(range(251)) * 4200; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[:1000000])"
    )
    done = await t.do(box.run, "python3", "-c", script, capture_output=True)
    every = bytes(range(251)) * 4200
    equal((done.returncode, done.stdout, done.stderr), (0, every, every[:1000000]))


@operation("exec: 200 short commands in a row")
async def short(t):
    box = await t.box()
    for number in range(200):
        done = await t.do(box.run, "echo", str(number), capture_output=True)
        equal((done.returncode, done.stdout, done.stderr), (0, f"{number}\n".encode(), b""))


@operation("exec: silent for 50 seconds", beside=True)
async def silent(t):
    box = await t.box("silent")
    done = await t.do(box.run, "sh", "-c", "sleep 50; echo woke; exit 3", capture_output=True)
    equal((done.returncode, done.stdout), (3, b"woke\n"))


@operation("exec: time limit of the client")
async def time_limit(t):
    box = await t.box()
    await t.raises(TimeoutError, box.run, "sleep", "30", timeout=0.5)
    error = await t.raises(TimeoutError, box.command("sleep", "30", timeout=0.5).run)
    true(isinstance(error, OSError), "also the built-in type")
    equal((await t.do(box.run, "echo", "in time", timeout=20, capture_output=True)).stdout, b"in time\n")


@operation("exec: signal")
async def signal(t):
    absent((type((await t.box()).command("true")), "signal"), (type((await t.box()).command("true")), "kill"))
    return absent((WSCommand, "signal"))


@operation("exec: messages beside the output")
async def messages(t):
    box = await t.box()
    heard = []
    command = box.command("sh", "-c", "echo $$")
    command._text_message_handler = heard.append
    pid = (await t.do(command.output)).strip()
    infos = [message for message in heard if b'"session_info"' in message]
    equal(len(infos), 1)
    true(re.search(rb'"session_id":"[0-9]+"', infos[0]), infos)
    true(b'"tty":false' in infos[0] and b'"command"' in infos[0], infos)
    true(int(pid) > 0, pid)
    # The same with the SDK's own transport in hand.
    socket = WSCommand(box.command("sh", "-c", "echo here; echo there >&2; exit 2"))
    await t.coroutine(socket.start())
    equal(await t.coroutine(socket.wait()), 2)
    equal((socket.get_stdout(), socket.get_stderr()), (b"here\n", b"there\n"))
    await t.coroutine(socket.close())


@operation("exec over HTTP")
async def over_http(t):
    return absent((t.Sprite, "exec_http"), (t.Sprite, "run_http"), (t.Sprite, "exec_file_http"))
