"""Policies: what is set is what is read."""

import sprites.policy
from harness import absent, equal, operation, true
from sprites.exceptions import APIError

from sprites import NetworkPolicy, PolicyRule, SpriteError

RULES = [
    PolicyRule(domain="*.example.org", action="deny"),
    PolicyRule(domain="example.com", action="allow"),
    PolicyRule(include="defaults"),
    PolicyRule(domain="a.example.org", action="allow"),
    PolicyRule(domain="*", action="deny"),
]


@operation("network policy: set and read back in order")
async def network(t):
    sprite = await t.box("policy")
    equal(await t.do(sprite.get_network_policy), NetworkPolicy([]))
    for rules in (RULES, RULES[::-1], RULES[:1], [PolicyRule(domain="*", action="deny")], []):
        await t.do(sprite.update_network_policy, NetworkPolicy(list(rules)))
        equal((await t.do(sprite.get_network_policy)).rules, rules)
    if t.sync:
        sprites.policy.update_network_policy(sprite, NetworkPolicy(RULES))
        equal(sprites.policy.get_network_policy(sprite), NetworkPolicy(RULES))
    # It survives what ends the processes.
    await t.do(sprite.update_network_policy, NetworkPolicy(RULES))
    await t.do(sprite.run, "true")
    equal((await t.do(t.client.sprite(sprite.name).get_network_policy)).rules, RULES)


@operation("network policy: invalid")
async def invalid(t):
    sprite = await t.box("policy-invalid")
    kept = [PolicyRule(domain="example.com", action="allow")]
    await t.do(sprite.update_network_policy, NetworkPolicy(kept))
    for rule in (
        PolicyRule(domain="example.com", action="perhaps"),
        PolicyRule(domain="example.com"),
        PolicyRule(action="allow"),
        PolicyRule(include="everything"),
        PolicyRule(domain="exa mple.com", action="allow"),
    ):
        error = await t.raises(SpriteError, sprite.update_network_policy, NetworkPolicy([rule]))
        true("(status 400)" in str(error), (rule, error))
        if t.sync:
            error = await t.raises(APIError, sprites.policy.update_network_policy, sprite, NetworkPolicy([rule]))
            true(error.status_code == 400 and str(error).startswith("Invalid policy: "), error)
    equal((await t.do(sprite.get_network_policy)).rules, kept)


@operation("privileges policy")
async def privileges(t):
    return absent((t.Sprite, "get_privileges_policy"), (t.Sprite, "update_privileges_policy"))


@operation("resources policy")
async def resources(t):
    return absent((t.Sprite, "get_resources_policy"), (t.Sprite, "update_resources_policy"))
