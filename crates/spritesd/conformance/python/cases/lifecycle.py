"""Sprites: made, found, listed, changed, deleted."""

import re
from datetime import datetime, timedelta, timezone

from harness import absent, equal, eventually, not_run, operation, true

import sprites
from sprites import ListOptions, SpriteConfig, URLSettings


def check_new(sprite, name: str) -> None:
    """What the answer to a create call says of a Sprite that never ran."""
    equal(sprite.name, name)
    true(re.fullmatch(r"sprite-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", sprite.id), f"id {sprite.id}")
    equal(sprite.status, "cold")
    true(sprite.organization_name, "organization")
    true(sprite.url.startswith("http"), sprite.url)
    equal(sprite.version, None)
    equal(sprite.environment_version, None)
    for time in (sprite.created_at, sprite.updated_at):
        true(abs(datetime.now(timezone.utc) - time) < timedelta(minutes=1), f"made at {time}")
    equal(sprite.last_running_at, None)


@operation("create")
async def create(t):
    sprite = await t.do(t.client.create_sprite, t.name("made"))
    true(type(sprite) is t.Sprite, type(sprite))
    check_new(sprite, t.name("made"))
    equal((sprite.labels, sprite.url_settings.auth), ([], "sprite"))
    # A handle alone makes nothing and asks nothing.
    equal(t.client.sprite(t.name("handle")).id, None)
    await t.raises(sprites.NotFoundError, t.client.get_sprite, t.name("handle"))


@operation("create with size, labels, URL settings and runtime")
async def create_with(t):
    sprite = await t.do(
        t.client.create_sprite,
        t.name("full"),
        config=SpriteConfig(ram_mb=512, cpus=2, region="ord", storage_gb=10),
        url_settings=URLSettings(auth="public", private_access="admins"),
        labels=["one", "two=zwei"],
        wait_for_capacity=True,
        runtime="dev",
    )
    check_new(sprite, t.name("full"))
    equal(sprite.labels, ["one", "two=zwei"])
    equal(sprite.url_settings, URLSettings("public", "admins"))


@operation("get")
async def get(t):
    made = await t.box("got")
    got = await t.do(t.client.get_sprite, made.name)
    true(type(got) is t.Sprite, type(got))
    check_new(got, made.name)
    equal((got.id, got.created_at, got.url), (made.id, made.created_at, made.url))


@operation("list one page")
async def list_page(t):
    names = [t.name(f"page-{n}") for n in range(3)]
    for name in names:
        await t.do(t.client.create_sprite, name, labels=["paged"])
    prefix = t.name("page-")
    first = await t.do(t.client.list_sprites, ListOptions(prefix=prefix, max_results=2, bulk_load=True))
    equal([s.name for s in first.sprites], names[:2])
    equal(first.has_more, True)
    true(all(s.labels == ["paged"] and s.id and s.url and s.created_at for s in first.sprites), first.sprites)
    rest = await t.do(
        t.client.list_sprites,
        ListOptions(prefix=prefix, max_results=2, continuation_token=first.next_continuation_token),
    )
    equal([s.name for s in rest.sprites], names[2:])
    equal((rest.has_more, rest.next_continuation_token), (False, None))
    true(rest.cold >= 3 and rest.running >= 0 and rest.warm >= 0, rest)
    nothing = await t.do(t.client.list_sprites, ListOptions(prefix=t.name("nobody")))
    equal((nothing.sprites, nothing.has_more), ([], False))
    true(len((await t.do(t.client.list_sprites)).sprites) >= 3, "without options")


@operation("list all of 251, over several pages, none woken")
async def list_all(t):
    wanted = [f"{t.many}{n:03}" for n in range(251)]

    async def listed():
        # The runner makes them while the first cases run.
        every = await t.do(t.client.list_all_sprites, t.many)
        return len(every) == 251 and every

    every = await eventually(listed, "251 Sprites", seconds=90)
    equal([sprite.name for sprite in every], wanted)
    true(all(type(sprite) is t.Sprite for sprite in every), "handles")
    states, token = set(), None
    while True:
        page = await t.do(t.client.list_sprites, ListOptions(prefix=t.many, max_results=100, continuation_token=token))
        states |= {(sprite.status, sprite.last_running_at) for sprite in page.sprites}
        token = page.next_continuation_token
        if not page.has_more:
            break
    equal(states, {("cold", None)})


@operation("update labels")
async def update_labels(t):
    sprite = await t.do(t.client.create_sprite, t.name("labels"), labels=["old"])
    for change in (sprite.update, lambda **o: t.client.update_sprite(sprite.name, **o)):
        updated = await t.do(change, labels=["new", "newer"])
        equal((updated.labels, updated.url_settings.auth, updated.id), (["new", "newer"], "sprite", sprite.id))
        emptied = await t.do(change, labels=[])
        equal(emptied.labels, [])
        equal((await t.do(t.client.get_sprite, sprite.name)).labels, [])
    true(emptied.updated_at > sprite.updated_at, "updated_at moves on")
    await t.raises(ValueError, sprite.update)
    # The same by the bare client that the SDK hands out; `clear_labels` is what another SDK sends.
    url = f"{t.url}/v1/sprites/{sprite.name}"
    equal((await t.do(t.client.http_client.put, url, json={"labels": ["again"]})).json()["labels"], ["again"])
    await t.do(t.client.http_client.put, url, json={"clear_labels": True})
    equal((await t.do(t.client.http_client.get, url)).json()["labels"], [])
    equal((await t.do(t.client.http_client.delete, url)).status_code, 204)


@operation("update URL settings")
async def update_url(t):
    sprite = await t.do(t.client.create_sprite, t.name("url"), labels=["kept"])

    async def stored():
        got = await t.do(t.client.get_sprite, sprite.name)
        return got.url_settings, got.labels

    await t.do(sprite.update_url_settings, URLSettings(auth="public"))
    equal(await stored(), (URLSettings("public"), ["kept"]))
    await t.do(t.client.update_url_settings, sprite.name, URLSettings("sprite", "org_users"))
    equal(await stored(), (URLSettings("sprite", "org_users"), ["kept"]))
    # A partial update: what is not named stays.
    await t.do(sprite.update, url_settings=URLSettings(auth="public"))
    equal(await stored(), (URLSettings("public", "org_users"), ["kept"]))


@operation("upgrade")
async def upgrade(t):
    sprite = await t.box("upgraded")
    await t.do(sprite.upgrade)
    await t.do(t.client.upgrade_sprite, sprite.name)
    await t.raises(sprites.NotFoundError, t.client.upgrade_sprite, t.name("nobody"))
    equal((await t.do(sprite.run, "echo", "still", capture_output=True)).stdout, b"still\n")


@operation("restart")
async def restart(t):
    return absent((t.Sprite, "restart"), (t.Client, "restart_sprite"))


@operation("check health")
async def check(t):
    return absent((t.Sprite, "check"), (t.Client, "check_sprite"))


@operation("watch states")
async def watch(t):
    return absent((t.Client, "watch_sprites"))


@operation("delete")
async def delete(t):
    calls = {
        "destroy": lambda s: s.destroy(),
        "delete": lambda s: s.delete(),
        "destroy_sprite": lambda s: t.client.destroy_sprite(s.name),
        "delete_sprite": lambda s: t.client.delete_sprite(s.name),
    }
    ids = set()
    for call in calls.values():
        sprite = await t.do(t.client.create_sprite, t.name("short-lived"))
        await t.do(sprite.run, "sh", "-c", "echo left > ~/left")
        await t.do(call, sprite)
        await t.raises(sprites.NotFoundError, t.client.get_sprite, sprite.name)
        await t.raises(sprites.NotFoundError, call, sprite)
        ids.add(sprite.id)
    # Each of them was another one.
    equal(len(ids), len(calls))
    sprite = await t.do(t.client.create_sprite, t.name("short-lived"))
    equal((await t.do(sprite.run, "ls", capture_output=True)).stdout, b"")


@operation("mint a token")
async def mint(t):
    true(callable(t.Client.create_token), "create_token")
    return not_run("`create_token` goes to the vendor's public host, whatever the base URL.")
