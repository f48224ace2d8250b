"""Makes ROCK's tables in an empty database, by ROCK's own code: with a database of its own ROCK leaves that to others."""

import asyncio
import sys

import rock.admin.core.sandbox_table  # noqa: F401 declares its table
import rock.admin.core.scheduler_task_table  # noqa: F401
from rock.admin.core.db_provider import DatabaseProvider
from rock.config import DatabaseConfig


async def main() -> None:
    provider = DatabaseProvider(db_config=DatabaseConfig(url=sys.argv[1]))
    await provider.init()
    await provider.create_tables()
    await provider.close()


asyncio.run(main())
