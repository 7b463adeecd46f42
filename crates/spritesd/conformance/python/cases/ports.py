"""Ports: the Python SDK has no such operations."""

from harness import absent, operation


@operation("proxy one port")
async def proxy(t):
    return absent((t.Sprite, "proxy_port"), (t.Sprite, "proxy"))


@operation("proxy several ports")
async def proxies(t):
    return absent((t.Sprite, "proxy_ports"))


@operation("watch ports")
async def watch(t):
    return absent((t.Sprite, "watch_ports"))
