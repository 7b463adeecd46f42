"""Refusals, by the type that the SDK makes of them."""

import socket

from harness import equal, operation, true
from sprites.exceptions import APIError

import sprites
from sprites import ListOptions, NetworkPolicy, URLSettings


@operation("401 wrong token")
async def wrong_token(t):
    box = await t.box()
    for token in ("wrong", t.token + "x", t.token[:-1]):
        stranger = t.connect(token=token)
        await t.raises(sprites.AuthenticationError, stranger.list_sprites)
        await t.raises(sprites.AuthenticationError, stranger.get_sprite, box.name)
        await t.raises(sprites.AuthenticationError, stranger.create_sprite, t.name("stranger"))
        await t.raises(sprites.AuthenticationError, stranger.delete_sprite, box.name)
        error = await t.raises(APIError, stranger.sprite(box.name).run, "true")
        equal((error.status_code, error.error_code), (401, "authentication failed"))
        error = await t.raises(sprites.SpriteError, stranger.sprite(box.name).list_sessions)
        true("status 401" in str(error), error)
    equal((await t.do(t.client.get_sprite, box.name)).id, box.id)


@operation("404 missing Sprite")
async def missing(t):
    ghost = t.client.sprite(t.name("ghost"))
    await t.raises(sprites.NotFoundError, t.client.get_sprite, ghost.name)
    await t.raises(sprites.NotFoundError, ghost.update, labels=[])
    await t.raises(sprites.NotFoundError, ghost.update_url_settings, URLSettings("public"))
    await t.raises(sprites.NotFoundError, ghost.delete)
    error = await t.raises(APIError, ghost.run, "true")
    equal((error.status_code, error.error_code), (404, "sprite not found"))
    for call in (ghost.list_sessions, ghost.get_network_policy, ghost.list_checkpoints):
        error = await t.raises(sprites.SpriteError, call)
        true("status 404" in str(error) and "sprite not found" in str(error), error)
    await t.raises(sprites.SpriteError, ghost.update_network_policy, NetworkPolicy())
    equal((await t.raises(APIError, ghost.create_checkpoint)).status_code, 404)
    equal((await t.raises(APIError, ghost.list_services)).status_code, 404)
    await t.raises(sprites.FileNotFoundError_, (ghost.filesystem() / "x").read_bytes)


@operation("409 duplicate name")
async def duplicate(t):
    box = await t.box()
    error = await t.raises(sprites.SpriteError, t.client.create_sprite, box.name)
    true("(status 409)" in str(error), error)
    true(f"A sprite named '{box.name}' already exists. Please choose a different name." in str(error), error)
    equal((await t.do(t.client.get_sprite, box.name)).id, box.id)


@operation("400 invalid input")
async def invalid(t):
    for name in ("", "-x", "x-", "Upper", "under_score", "dot.dot", "a" * 64, "ü", "a b", "a/b"):
        error = await t.raises(sprites.SpriteError, t.client.create_sprite, name)
        true("(status 400)" in str(error) and "invalid sprite name format" in str(error), (name, error))
    box = await t.box()
    error = await t.raises(sprites.SpriteError, box.update_url_settings, URLSettings("everybody"))
    true("invalid auth type, must be one of: sprite, public" in str(error), error)
    longest = await t.do(t.client.create_sprite, (t.name("") + "a" * 63)[:63])
    equal(len(longest.name), 63)
    page = await t.do(t.client.list_sprites, ListOptions(prefix=t.name("aaaa")))
    equal([sprite.name for sprite in page.sprites], [longest.name])


@operation("429 creation rate, with all fields")
async def creation_rate(t):
    # A server of its own, whose one creation an hour the runner has used.
    client = t.connect(url=t.rate_url)
    error = await t.raises(sprites.SpriteError, client.create_sprite, t.name("limited"))
    for part in (
        "(status 429)",
        '"error":"sprite_creation_rate_limited"',
        '"limit":1,',
        '"current_count":1,',
        '"window_seconds":3600',
    ):
        true(part in str(error), (part, error))
    # What the SDK would read from such an answer: the call itself gives only the text above.
    response = await t.do(client.http_client.post, f"{t.rate_url}/v1/sprites", json={"name": t.name("limited")})
    parsed = sprites.exceptions.parse_api_error(response.status_code, response.content, dict(response.headers))
    true(parsed.is_rate_limit_error() and parsed.is_creation_rate_limited(), parsed)
    true(not parsed.is_concurrent_limit_exceeded(), parsed)
    equal((parsed.limit, parsed.window_seconds, parsed.current_count), (1, 3600, 1))
    equal((parsed.rate_limit_limit, parsed.rate_limit_remaining), (1, 0))
    true(0 < parsed.get_retry_after_seconds() <= 3600, parsed.retry_after_seconds)
    equal(parsed.retry_after_header, parsed.retry_after_seconds)
    true(parsed.rate_limit_reset > 1_700_000_000, parsed.rate_limit_reset)
    equal(sprites.exceptions.parse_api_error(200, b""), None)
    return "Create calls raise a plain `SpriteError` for 429: limit, window and time to retry are only in its text."


@operation("429 concurrent limit")
async def concurrent_limit(t):
    # A server where the one Sprite that may run is running; this one is cold.
    client = t.connect(url=t.busy_url)
    page = await t.do(client.list_sprites, ListOptions(prefix="cold"))
    error = await t.raises(APIError, client.sprite(page.sprites[0].name).run, "true")
    true(error.is_rate_limit_error() and error.is_concurrent_limit_exceeded(), error)
    true(not error.is_creation_rate_limited(), error)
    equal((error.status_code, error.limit, error.current_count), (429, 1, 1))
    true(error.get_retry_after_seconds() > 0 and error.retry_after_header > 0, error)
    equal((error.rate_limit_limit, error.rate_limit_remaining), (1, 0))


@operation("connection refused")
async def refused(t):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        client = t.connect(url=f"http://127.0.0.1:{unheard.getsockname()[1]}")
        await t.raises(sprites.NetworkError, client.list_sprites)
        await t.raises(sprites.NetworkError, client.sprite("x").run, "true")
        await t.raises(sprites.FilesystemError, (client.sprite("x").filesystem() / "x").read_bytes)
