"""FastAPI: a request that works under a lock. Run it by `uvicorn fastapi_app:app`; the nodes are in `HOLDFAST_ADDR`."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import AsyncIterator, Dict

import holdfast
from fastapi import FastAPI, HTTPException
from holdfast import aio


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with aio.Client(session_prefix="shop", ttl=5) as app.state.holdfast:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}/ship")
async def ship(order: int, seconds: float = 0) -> Dict[str, int]:
    try:
        async with app.state.holdfast.lock(f"orders/{order}", wait=0.5) as guard:
            await asyncio.sleep(seconds)  # the work; a loss cancels it, and the statement raises Lost
            return {"token": guard.token}
    except holdfast.Busy as busy:
        raise HTTPException(423, str(busy)) from busy
    except holdfast.Lost as lost:
        raise HTTPException(503, f"the order was not shipped: {lost}") from lost
