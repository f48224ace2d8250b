"""The calls of the SDK that ROCK has nothing for: each function takes the program of capability.py.

What asks whether something is there, or deletes it, wants to hear yes: a no would be the answer of a server that keeps none at all.
"""

import e2b

from told import Absent, equal, settle

ABSENT_ID = "none"


def of(program, name):
    """The SDK's class of that name, for the API that the program uses."""
    found = getattr(e2b, name if program.api == "sync" else f"Async{name}", None)
    if found is None:
        raise Absent
    return found


async def create_mcp(program):
    program.others.append(await settle(of(program, "Sandbox").create(mcp={"duckduckgo": {}}, request_timeout=60)))


async def get_metrics(program):
    await settle(program.sandbox.get_metrics())


async def fork(program):
    program.others += await settle(program.sandbox.fork())


async def update_network(program):
    await settle(program.sandbox.update_network({"deny_out": ["8.8.8.8/32"]}))


async def create_snapshot(program):
    await settle(program.sandbox.create_snapshot())


async def list_snapshots(program):
    await settle(of(program, "Sandbox").list_snapshots().next_items())


async def delete_snapshot(program):
    equal(await settle(of(program, "Sandbox").delete_snapshot(ABSENT_ID)), True, "delete")


async def template_build(program):
    await settle(of(program, "Template").build(e2b.Template().from_image("python:3.11"), "some-template"))


async def template_exists(program):
    equal(await settle(of(program, "Template").exists("some-template")), True, "exists")


async def template_get_tags(program):
    await settle(of(program, "Template").get_tags("some-template"))


async def template_assign_tags(program):
    await settle(of(program, "Template").assign_tags("some-template:one", "two"))


async def template_remove_tags(program):
    await settle(of(program, "Template").remove_tags("some-template", "two"))


async def volume_create(program):
    await settle(of(program, "Volume").create("some-volume"))


async def volume_list(program):
    await settle(of(program, "Volume").list())


async def volume_connect(program):
    await settle(of(program, "Volume").connect(ABSENT_ID))


async def volume_get_info(program):
    await settle(of(program, "Volume").get_info(ABSENT_ID))


async def volume_destroy(program):
    equal(await settle(of(program, "Volume").destroy(ABSENT_ID)), True, "destroy")


async def secret_create(program):
    await settle(of(program, "Secret").create("SOME_SECRET", "value"))


async def secret_list(program):
    await settle(of(program, "Secret").list().next_items())


async def secret_get_info(program):
    await settle(of(program, "Secret").get_info(ABSENT_ID))


async def secret_update(program):
    await settle(of(program, "Secret").update(ABSENT_ID, "value"))


async def secret_destroy(program):
    equal(await settle(of(program, "Secret").destroy(ABSENT_ID)), True, "destroy")


CALLS = """
create_mcp get_metrics fork update_network create_snapshot list_snapshots delete_snapshot
template_build template_exists template_get_tags template_assign_tags template_remove_tags
volume_create volume_list volume_connect volume_get_info volume_destroy
secret_create secret_list secret_get_info secret_update secret_destroy
""".split()
