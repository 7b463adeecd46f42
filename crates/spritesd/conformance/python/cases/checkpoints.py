"""Checkpoints: real copies of a Sprite's files."""

from datetime import datetime, timedelta, timezone

import sprites.checkpoint
from harness import equal, operation, true
from sprites.exceptions import APIError

import sprites


async def messages(t, sprite, comment: str):
    with await t.do(sprite.create_checkpoint, comment) as stream:
        return list(stream)


def check_created(told, id: str) -> None:
    equal([message.type for message in told], ["info"] * (len(told) - 1) + ["complete"])
    equal(told[-1].data, f"Checkpoint {id} created successfully")
    true(any(f"ID: {id}" in (message.data or "") for message in told), told)
    true(all(message.error is None for message in told), told)


@operation("checkpoint: create")
async def create(t):
    sprite = await t.box("created")
    check_created(await messages(t, sprite, "first"), "v1")
    check_created(await messages(t, sprite, ""), "v2")
    stream = await t.do(sprite.create_checkpoint, timeout=60.0)
    check_created(list(stream), "v3")
    stream.close()


@operation("checkpoint: list and get")
async def listed(t):
    sprite = await t.box("listed")
    await messages(t, sprite, "a comment – ünï")
    await messages(t, sprite, "")
    found = await t.do(sprite.list_checkpoints)
    equal(sorted(c.id for c in found), ["Current", "v0", "v1", "v2"])
    equal([c.id for c in found if c.id != "Current"], ["v2", "v1", "v0"])
    first = next(c for c in found if c.id == "v1")
    equal(first.comment, "a comment – ünï")
    true(abs(datetime.now(timezone.utc) - first.create_time) < timedelta(minutes=1), first)
    got = await t.do(sprite.get_checkpoint, "v1")
    equal((got.id, got.comment, got.create_time), ("v1", first.comment, first.create_time))
    true(isinstance(await t.do(sprite.list_checkpoints, "v1"), list), "with a history filter")
    if t.sync:
        equal({c.id for c in sprites.checkpoint.list_checkpoints(sprite)}, {c.id for c in found})
        equal(sprites.checkpoint.get_checkpoint(sprite, "v1"), got)


@operation("checkpoint: restore")
async def restore(t):
    sprite = await t.box("restored")
    path = sprite.filesystem("/home/sprite") / "file"
    await t.do(path.write_text, "before")
    await messages(t, sprite, "")
    await t.do(path.write_text, "after")
    await t.do(path.with_name("newer").write_text, "discarded")
    with await t.do(sprite.restore_checkpoint, "v1") as stream:
        told = list(stream)
    equal((told[-1].type, told[-1].data), ("complete", "Restore from v1 complete"))
    true(all(message.type == "info" for message in told[:-1]), told)
    done = await t.do(sprite.run, "sh", "-c", "cat file; ls", capture_output=True)
    equal(done.stdout, b"beforefile\n")
    equal(list(await t.do(sprite.restore_checkpoint, "v1", timeout=60.0))[-1].type, "complete")
    equal((await t.do(t.client.get_sprite, sprite.name)).id, sprite.id)


@operation("checkpoint: errors")
async def errors(t):
    sprite = await t.box("created")
    await t.raises(sprites.NotFoundError, sprite.get_checkpoint, "v99")
    if t.sync:
        equal((await t.raises(APIError, sprites.checkpoint.get_checkpoint, sprite, "v99")).status_code, 404)
    told = list(await t.do(sprite.restore_checkpoint, "v99"))
    equal(told[-1].type, "error")
    true("v99" in told[-1].error, told)
    ghost = t.client.sprite(t.name("ghost"))
    equal((await t.raises(APIError, ghost.restore_checkpoint, "v1")).status_code, 404)
    error = await t.raises(sprites.SpriteError, ghost.list_checkpoints)
    true("status 404" in str(error), error)
