"""`python -m bench.empty_aiohttp PORT`: an aiohttp server that answers every request with nothing, to compare with."""

import asyncio
import sys

from aiohttp import web

from emulator.app import new_event_loop


async def _answer(_request: web.Request) -> web.Response:
    return web.Response(body=b"{}", content_type="application/json")


async def _serve(port: int) -> None:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as main_runner:
        main_runner.run(_serve(int(sys.argv[1])))
