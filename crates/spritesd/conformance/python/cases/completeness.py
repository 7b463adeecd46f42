"""The end: every public function, method and property of the SDK was called by the cases before."""

import importlib
import inspect
import pkgutil

import sprites.loop
from harness import code_of, equal, operation, true

import sprites

NAME = "every public operation is exercised"

# Modules of one half only; all others are shared.
HALVES = {
    "sync": {"client", "sprite", "exec", "filesystem", "loop", "session", "services", "policy", "checkpoint"},
    "async": {"async_client", "async_sprite", "async_exec", "async_filesystem"},
}

EXCUSED = {
    "client.SpritesClient.create_token": "goes to the vendor's public host",
    "async_client.AsyncSpritesClient.create_token": "goes to the vendor's public host",
    "checkpoint.CheckpointStream.close": "no call of the SDK returns this class, only a subclass that overrides it",
    "checkpoint.RestoreStream.close": "no call of the SDK returns this class, only a subclass that overrides it",
    "types.DirEntry.is_file": "no call of the SDK returns this class",
}


def public_members():
    """Every public function and method of the package with its name and code."""
    for info in pkgutil.iter_modules(sprites.__path__):
        module = importlib.import_module(f"sprites.{info.name}")
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isclass(value):
                # Of a private base class the public members count: its heirs have them.
                if info.name == "_interfaces":
                    continue
                for member, body in vars(value).items():
                    if not member.startswith("_") and code_of(body):
                        yield info.name, f"{info.name}.{value.__name__}.{member}", code_of(body)
            elif not name.startswith("_") and not info.name.startswith("_") and code_of(value):
                yield info.name, f"{info.name}.{name}", code_of(value)


@operation(NAME)
async def complete(t):
    await t.close()
    if t.sync:
        true(sprites.loop.get_existing_loop().is_running(), "the loop of the SDK")
        sprites.loop.stop_loop()
        equal(sprites.loop.get_existing_loop(), None)
    other = HALVES["async" if t.sync else "sync"]
    members = [(name, code) for module, name, code in public_members() if module not in other]
    true(len(members) > 100, len(members))
    missing = [name for name, code in members if code not in t.trace.called]
    # An excuse for what was called, or is not there any more, is one too many.
    shared = {name for name in EXCUSED if name.split(".")[0] not in other}
    equal((sorted(missing), "unused excuses", []), (sorted(shared), "unused excuses", []))
