"""Services: programs that the Sprite keeps running."""

from datetime import datetime, timedelta, timezone

import httpx
import sprites.services
from harness import absent, equal, eventually, operation, true
from sprites.exceptions import APIError

SERVE = ["-m", "http.server", "8080", "--directory", "/home/sprite"]
TALK = ["-c", "echo out; echo err >&2; exec sleep 600"]


async def service(t, sprite, name: str, *args, **options) -> list:
    with await t.do(sprite.create_service, name, *args, **options) as stream:
        return list(stream)


async def status(t, sprite, name: str) -> str:
    return (await t.do(sprite.get_service, name)).state.status


async def reaches(t, sprite, name: str, wanted: str) -> None:
    async def reached():
        return await status(t, sprite, name) == wanted

    await eventually(reached, f"service {name} {wanted}")


@operation("service: create with log stream")
async def create(t):
    sprite = await t.box("services")
    told = await service(t, sprite, "talk", "sh", TALK, duration=1.5)
    equal(told[0].type, "started")
    equal([e.data for e in told if e.type == "stdout"], ["out\n"])
    equal([e.data for e in told if e.type == "stderr"], ["err\n"])
    equal(told[-1].type, "complete")
    true({"stdout", "stderr"} <= set(told[-1].log_files), told[-1])
    now = datetime.now(timezone.utc).timestamp() * 1000
    true(all(abs(now - event.timestamp) < 60_000 for event in told), told)
    # It goes on after the stream; put again it is another one.
    equal(await status(t, sprite, "talk"), "running")
    told = await service(t, sprite, "brief", "sh", ["-c", "exit 3"], duration=1.0)
    equal([e.exit_code for e in told if e.type == "exit"][:1], [3])
    if t.sync:
        stream = sprites.services.create_service(sprite, "talk", "sleep", ["601"], duration=0.2)
        seen = []
        stream.process_all(seen.append)
        stream.close()
        equal(seen[-1].type, "complete")
        equal(sprites.services.get_service(sprite, "talk").cmd, "sleep")


@operation("service: list and get")
async def listed(t):
    sprite = await t.box("services-listed")
    equal(await t.do(sprite.list_services), [])
    await service(t, sprite, "one", "sleep", ["600"], duration=0.2)
    await service(t, sprite, "web", "python3", SERVE, http_port=8080, duration=0.2)
    found = {s.name: s for s in await t.do(sprite.list_services)}
    equal(sorted(found), ["one", "web"])
    web = await t.do(sprite.get_service, "web")
    equal((web.name, web.cmd, web.args, web.needs, web.http_port), ("web", "python3", SERVE, [], 8080))
    equal((web.state.name, web.state.status, found["one"].http_port), ("web", "running", None))
    true(web.state.pid > 0 and web.state.pid == found["web"].state.pid, web)
    true(abs(datetime.now(timezone.utc) - web.state.started_at) < timedelta(minutes=1), web)
    equal(web.state.restart_count, 0)
    if t.sync:
        equal({s.name for s in sprites.services.list_services(sprite)}, {"one", "web"})


@operation("service: environment, directory and needs")
async def environment(t):
    sprite = await t.box("services-needs")
    await service(t, sprite, "base", "sleep", ["600"], duration=0.2)
    told = await service(
        t,
        sprite,
        "user",
        "sh",
        ["-c", "echo $GREETING; pwd; exec sleep 600"],
        needs=["base"],
        env={"GREETING": "hello wörld"},
        dir="/tmp",
        duration=1.0,
    )
    equal("".join(e.data for e in told if e.type == "stdout"), "hello wörld\n/tmp\n")
    got = await t.do(sprite.get_service, "user")
    equal((got.needs, got.env, got.dir), (["base"], {"GREETING": "hello wörld"}, "/tmp"))


@operation("service: stop and start")
async def stop(t):
    sprite = await t.box("services")
    await service(t, sprite, "stopped", "sleep", ["600"], duration=0.2)
    before = (await t.do(sprite.get_service, "stopped")).state.pid
    told = [e.type for e in await t.do(sprite.stop_service, "stopped", timeout=5.0)]
    true({"stopping", "stopped"} <= set(told) and told[-1] == "complete", told)
    equal(await status(t, sprite, "stopped"), "stopped")
    equal((await t.raises(APIError, sprite.stop_service, "stopped")).status_code, 409)
    told = [e.type for e in await t.do(sprite.start_service, "stopped", duration=0.5)]
    equal((told[0], told[-1]), ("started", "complete"))
    after = (await t.do(sprite.get_service, "stopped")).state
    true(after.status == "running" and after.pid != before, after)
    if t.sync:
        equal(list(sprites.services.stop_service(sprite, "stopped"))[-1].type, "complete")
        equal(list(sprites.services.start_service(sprite, "stopped", 0.2))[-1].type, "complete")


@operation("service: restart")
async def restart(t):
    return absent((t.Sprite, "restart_service"), (sprites.services, "restart_service"))


@operation("service: signal")
async def signal(t):
    sprite = await t.box("services")
    script = "trap 'echo hup > ~/heard' HUP; echo ready; while :; do sleep 0.05; done"
    told = await service(t, sprite, "listens", "sh", ["-c", script], duration=1.0)
    true(any(e.data == "ready\n" for e in told), told)
    before = (await t.do(sprite.get_service, "listens")).state.pid
    await t.do(sprite.signal_service, "listens", "SIGHUP")
    heard = sprite.filesystem("/home/sprite") / "heard"
    await eventually(lambda: t.do(heard.exists), "the signal was heard")
    equal((await t.do(sprite.get_service, "listens")).state.pid, before)

    # One that ends by a signal is started again.
    async def again():
        state = (await t.do(sprite.get_service, "listens")).state
        return state.status == "running" and state.pid != before and state.restart_count > 0

    if t.sync:
        sprites.services.signal_service(sprite, "listens", "KILL")
    else:
        await t.do(sprite.signal_service, "listens", "KILL")
    await eventually(again, "it is restarted")
    equal((await t.raises(APIError, sprite.signal_service, "listens", "NOISE")).status_code, 400)
    equal((await t.raises(APIError, sprite.signal_service, "nobody", "TERM")).status_code, 404)


@operation("service: logs")
async def logs(t):
    return absent((t.Sprite, "get_service_logs"), (sprites.services, "get_service_logs"))


@operation("service: delete")
async def delete(t):
    sprite = await t.box("services-deleted")
    await service(t, sprite, "gone", "sleep", ["612"], duration=0.2)
    await t.do(sprite.delete_service, "gone")
    equal(await t.do(sprite.list_services), [])
    equal((await t.raises(APIError, sprite.get_service, "gone")).status_code, 404)
    equal((await t.do(sprite.run, "pgrep", "-f", "sleep 612", capture_output=True)).stdout, b"")
    await t.raises(sprites.SpriteError if t.sync else APIError, sprite.delete_service, "gone")
    if t.sync:
        await service(t, sprite, "gone", "sleep", ["612"], duration=0.2)
        sprites.services.delete_service(sprite, "gone")
        equal((await t.raises(APIError, sprites.services.delete_service, sprite, "gone")).status_code, 404)


@operation("service: errors")
async def errors(t):
    sprite = await t.box("services-errors")
    for call in (sprite.get_service, sprite.start_service, sprite.stop_service):
        equal((await t.raises(APIError, call, "nobody")).status_code, 404, call.__name__)
    await service(t, sprite, "web", "python3", SERVE, http_port=8080, duration=0.2)
    error = await t.raises(APIError, sprite.create_service, "other", "sleep", ["600"], http_port=8081)
    equal(error.status_code, 409)
    true("another service already has an HTTP port configured" in error.response, error.response)
    equal((await t.raises(APIError, sprite.create_service, "empty", "")).status_code, 400)
    equal([s.name for s in await t.do(sprite.list_services)], ["web"])


@operation("service: reached by the URL of its Sprite")
async def by_url(t):
    sprite = await t.box("services-url")
    await t.do((sprite.filesystem("/home/sprite") / "page.txt").write_text, "served")
    await service(t, sprite, "web", "python3", SERVE, http_port=8080, duration=0.5)
    url = httpx.URL((await t.do(t.client.get_sprite, sprite.name)).url).join("page.txt")
    # Names below `localhost` are the loopback's; not every resolver knows that.
    true(url.host.endswith(".localhost"), url)
    host, here = url.netloc.decode(), url.copy_with(host="127.0.0.1")
    async with httpx.AsyncClient(trust_env=False) as browser:

        async def get(**headers) -> tuple[int, str]:
            response = await browser.get(here, headers={"Host": host, **headers})
            return response.status_code, response.text

        async def served():
            return await get(Authorization=f"Bearer {t.token}") == (200, "served")

        await eventually(served, "the page")
        true((await get())[0] in (401, 403), "without the token")
        true((await get(Authorization="Bearer wrong"))[0] in (401, 403), "with a wrong token")
        await t.do(sprite.update_url_settings, sprites.URLSettings("public"))
        equal(await get(), (200, "served"))
