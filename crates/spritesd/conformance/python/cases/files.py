"""Files, as a path of pathlib would have them."""

import os
from datetime import datetime, timedelta, timezone

from harness import absent, equal, operation, true

import sprites
from sprites import (
    DirectoryNotEmptyError,
    FileNotFoundError_,
    FilesystemError,
    IsADirectoryError_,
    NotADirectoryError_,
    PermissionError_,
)


async def folder(t, name: str):
    """A new folder for one case."""
    box = await t.box("files")
    path = box.filesystem("/home/sprite") / name
    await t.do(path.mkdir, parents=True)
    return path


@operation("files: bytes exact, 1 MB each way")
async def exact(t):
    here = await folder(t, "exact")
    for name, data in {
        "empty": b"",
        "every": bytes(range(256)) * 3,
        "large": os.urandom((1 << 20) + 17),
        "sp ace ünï 🦀 %41 & ? # + =": b"\r\n\0",
    }.items():
        await t.do((here / name).write_bytes, data)
        equal(await t.do((here / name).read_bytes), data, name)
        equal((await t.do((here / name).stat)).size, len(data))
    # Written anew, not over it.
    await t.do((here / "every").write_bytes, b"short")
    equal(await t.do((here / "every").read_bytes), b"short")
    # The same file, seen from inside.
    box = await t.box("files")
    equal((await t.do(box.run, "cat", str(here / "every"), capture_output=True)).stdout, b"short")


@operation("files: text and JSON")
async def text(t):
    path = (await folder(t, "text")) / "a.txt"
    await t.do(path.write_text, "grüße\n")
    equal(await t.do(path.read_text), "grüße\n")
    equal(await t.do(path.read_bytes), "grüße\n".encode())
    await t.do(path.write_text, "grüße", encoding="latin-1")
    equal(await t.do(path.read_text, encoding="latin-1"), "grüße")


@operation("files: modes")
async def modes(t):
    here = await folder(t, "modes")
    for mode in (0o644, 0o600, 0o755, 0o777):
        path = here / f"{mode:o}"
        await t.do(path.write_bytes, b"x", mode=mode)
        equal((await t.do(path.stat)).mode, f"{mode:04o}")
    box = await t.box("files")
    done = await t.do(box.run, "stat", "-c", "%a %U", str(here / "600"), capture_output=True)
    equal(done.stdout, b"600 sprite\n")


@operation("files: append and touch")
async def touch(t):
    here = await folder(t, "touch")
    new = here / "new"
    await t.do(new.touch, mode=0o600)
    equal((await t.do(new.read_bytes), (await t.do(new.stat)).mode), (b"", "0600"))
    await t.do(new.write_bytes, b"kept")
    await t.do(new.touch)
    equal(await t.do(new.read_bytes), b"kept")
    await t.raises(FilesystemError, new.touch, exist_ok=False)
    await t.do(here.touch)
    absent((type(new), "append_bytes"), (type(new), "append_text"))


@operation("files: make directories")
async def mkdir(t):
    here = await folder(t, "mkdir")
    deep = here / "a" / "b" / "c"
    await t.do(deep.mkdir, parents=True)
    equal(await t.do(deep.listdir), [])
    await t.do((here / "x" / "y" / "file").write_bytes, b"1")
    equal(await t.do((here / "x").listdir), ["y"])
    await t.raises(FileNotFoundError_, (here / "no" / "file").write_bytes, b"1", mkdir_parents=False)
    # The SDK writes `<directory>/.keep` with mkdirParents=false: there is no directory to write it into.
    await t.raises(FileNotFoundError_, (here / "plain").mkdir)
    await t.do(deep.mkdir)
    await t.do((here / "a").mkdir, exist_ok=True)
    await t.raises(FilesystemError, (here / "x" / "y" / "file").mkdir, exist_ok=True)
    return "`mkdir()` without `parents=True` makes no directory: it raises `FileNotFoundError_`."


@operation("files: list a directory")
async def listing(t):
    here = await folder(t, "listing")
    for name in ("b", "a", ".hidden", "ü", "sub/inner"):
        await t.do((here / name).write_bytes, b"")
    equal(sorted(await t.do(here.listdir)), [".hidden", "a", "b", "sub", "ü"])
    paths = await t.items(here.iterdir())
    equal(
        sorted(str(path) for path in paths),
        sorted(f"/home/sprite/listing/{n}" for n in (".hidden", "a", "b", "sub", "ü")),
    )
    true(all(type(path) is type(here) for path in paths), paths)
    await t.raises(FileNotFoundError_, (here / "none").listdir)


@operation("files: stat a file")
async def stat(t):
    path = (await folder(t, "stat")) / "file"
    await t.do(path.write_bytes, b"12345", mode=0o640)
    got = await t.do(path.stat)
    equal(
        (got.name, got.path, got.size, got.mode, got.is_dir, got.is_file), ("file", str(path), 5, "0640", False, True)
    )
    true(abs(datetime.now(timezone.utc) - got.mod_time) < timedelta(minutes=1), got)
    await t.raises(FileNotFoundError_, path.with_name("none").stat)


@operation("files: stat a directory")
async def stat_directory(t):
    here = await folder(t, "statdir")
    empty, filled, nested = here / "empty", here / "filled", here / "nested"
    await t.do(empty.mkdir, parents=True)
    await t.do((filled / "child").write_bytes, b"123")
    await t.do((nested / "child" / "file").write_bytes, b"")
    # The SDK lists the path and takes the first entry for it.
    await t.raises(FileNotFoundError_, empty.stat)
    equal(await t.do(empty.exists), False)
    got = await t.do(filled.stat)
    equal(
        (got.name, got.size, got.is_dir, await t.do(filled.is_dir), await t.do(filled.is_file)),
        ("child", 3, False, False, True),
    )
    equal((await t.do(nested.is_dir), await t.do(nested.is_file)), (True, False))
    return (
        "`stat`, `is_dir`, `is_file` and `exists` of a directory tell of its first entry; an empty one does not exist."
    )


@operation("files: exists and kinds")
async def kinds(t):
    here = await folder(t, "kinds")
    await t.do((here / "dir" / "inner" / "file").write_bytes, b"1")
    file, directory, none = here / "dir" / "inner" / "file", here / "dir", here / "none"
    seen = [
        [await t.do(getattr(path, kind)) for kind in ("exists", "is_file", "is_dir")]
        for path in (file, directory, none)
    ]
    equal(seen, [[True, True, False], [True, False, True], [False, False, False]])


@operation("files: rename and replace")
async def rename(t):
    here = await folder(t, "rename")
    old = here / "old"
    await t.do(old.write_bytes, b"1")
    new = await t.do(old.rename, here / "new")
    equal((str(new), await t.do(new.read_bytes), await t.do(old.exists)), (f"{here}/new", b"1", False))
    # A bare name is taken beside the file; an existing target is replaced.
    await t.do((here / "taken").write_bytes, b"2")
    equal(await t.do((await t.do(new.replace, "taken")).read_bytes), b"1")
    equal(await t.do(here.listdir), ["taken"])
    await t.do((here / "dir" / "file").write_bytes, b"3")
    await t.do((here / "dir").rename, str(here / "moved"))
    equal(await t.do((here / "moved" / "file").read_bytes), b"3")
    await t.raises(FileNotFoundError_, (here / "none").rename, here / "x")


@operation("files: copy")
async def copy(t):
    here = await folder(t, "copy")
    await t.do((here / "a").write_bytes, b"1")
    copied = await t.do((here / "a").copy_to, here / "b")
    equal((await t.do(copied.read_bytes), await t.do((here / "a").read_bytes)), (b"1", b"1"))
    equal(str(await t.do((here / "a").copy_to, "c")), f"{here}/c")
    await t.do((here / "dir" / "deep" / "file").write_bytes, b"2")
    await t.do((here / "dir").copy_to, str(here / "twin"))
    equal(await t.do((here / "twin" / "deep" / "file").read_bytes), b"2")
    error = await t.raises(IsADirectoryError_, (here / "dir").copy_to, here / "flat", recursive=False)
    equal(error.operation, "copy")
    await t.raises(FileNotFoundError_, (here / "none").copy_to, here / "x")


@operation("files: chmod")
async def chmod(t):
    here = await folder(t, "chmod")
    await t.do((here / "dir" / "file").write_bytes, b"#!/bin/sh\necho ran\n")
    await t.do((here / "dir" / "file").chmod, 0o755)
    box = await t.box("files")
    equal((await t.do(box.run, str(here / "dir" / "file"), capture_output=True)).stdout, b"ran\n")
    await t.do((here / "dir").chmod, 0o700, recursive=True)
    done = await t.do(box.run, "stat", "-c", "%a", str(here / "dir"), str(here / "dir" / "file"), capture_output=True)
    equal(done.stdout, b"700\n700\n")
    await t.raises(FileNotFoundError_, (here / "none").chmod, 0o600)


@operation("files: chown")
async def chown(t):
    return absent((type(await folder(t, "chown")), "chown"))


@operation("files: remove")
async def remove(t):
    here = await folder(t, "remove")
    file = here / "file"
    await t.do(file.write_bytes, b"")
    await t.do(file.unlink)
    await t.raises(FileNotFoundError_, file.unlink)
    await t.do(file.unlink, missing_ok=True)
    tree = here / "tree"
    await t.do((tree / "deep" / "file").write_bytes, b"")
    await t.raises(DirectoryNotEmptyError, tree.rmdir)
    await t.do(tree.rmtree)
    await t.raises(FileNotFoundError_, tree.listdir)
    await t.do((here / "empty").mkdir, parents=True)
    await t.do((here / "empty").rmdir)
    equal(await t.do(here.listdir), [])
    await t.raises(FileNotFoundError_, tree.rmtree)
    await t.raises(FileNotFoundError_, tree.rmdir)


@operation("files: errors by type")
async def errors(t):
    here = await folder(t, "errors")
    await t.do((here / "file").write_bytes, b"")
    await t.do((here / "dir" / "file").write_bytes, b"")
    error = await t.raises(FileNotFoundError_, (here / "none").read_bytes)
    equal((error.operation, error.path, error.code), ("read", f"{here}/none", "ENOENT"))
    equal((await t.raises(IsADirectoryError_, (here / "dir").read_bytes)).code, "EISDIR")
    equal((await t.raises(IsADirectoryError_, (here / "dir").write_bytes, b"")).code, "EISDIR")
    equal((await t.raises(NotADirectoryError_, (here / "file" / "below").write_bytes, b"")).code, "ENOTDIR")
    equal((await t.raises(DirectoryNotEmptyError, (here / "dir").rmdir)).code, "ENOTEMPTY")
    box = await t.box("files")
    await t.do(box.run, "chmod", "0", str(here / "file"), check=True)
    error = await t.raises(PermissionError_, (here / "file").read_bytes)
    equal((error.code, str(error)), ("EACCES", f"read {here}/file: permission denied (EACCES)"))
    true(issubclass(type(error), sprites.FilesystemError), "one family")


@operation("files: paths and the working directory")
async def paths(t):
    box = await t.box("files")
    fs = box.filesystem("/home/sprite/paths/")
    await t.do((fs / "file.tar.gz").write_bytes, b"1")
    equal(
        (str(fs.root), str(fs.cwd), str(fs.path()), str(fs.path("a", "b"))),
        ("/", "/home/sprite/paths", "/home/sprite/paths", "/home/sprite/paths/a/b"),
    )
    path = fs / "sub" / ".." / "file.tar.gz"
    equal(await t.do(path.read_bytes), b"1")
    equal((path.name, path.stem, path.suffix, path.suffixes), ("file.tar.gz", "file.tar", ".gz", [".tar", ".gz"]))
    equal(str(path), os.fspath(path))
    equal(path.parts, ("/", "home", "sprite", "paths", "file.tar.gz"))
    equal((str(path.parent), [str(p) for p in path.parents][-2:]), ("/home/sprite/paths", ["/home", "/"]))
    equal((path.is_absolute(), path.is_relative_to("/home"), path.is_relative_to(fs / "other")), (True, True, False))
    equal(str(path.joinpath("a", "b")), f"{path}/a/b")
    equal(
        [str(path.with_name("n")), str(path.with_stem("s")), str(path.with_suffix(".x"))],
        [f"{fs.cwd}/{n}" for n in ("n", "s.gz", "file.tar.x")],
    )
    equal((path, len({path, fs / path}), "/etc" / fs.root == fs.root), (fs / "file.tar.gz", 1, True))
    true("file.tar.gz" in repr(path) and box.name in repr(fs), repr(fs))
    equal(str(box.filesystem().cwd), "/")
    # pathlib gives `file.tar.gz`; here the result is made absolute again, under the working directory.
    equal(str(path.relative_to("/home/sprite/paths")), str(path))
    equal(str(path.relative_to("/home")), f"{fs.cwd}/sprite/paths/file.tar.gz")
    try:
        path.relative_to("/etc")
    except ValueError:
        return "`relative_to` gives an absolute path under the working directory."
    raise AssertionError("relative to /etc")


@operation("files: watch")
async def watch(t):
    return absent((type(await folder(t, "watch")), "watch"))
