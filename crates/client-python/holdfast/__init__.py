"""Distributed locks with fencing tokens, from a holdfast cluster.

    import holdfast

    with holdfast.Client(["10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400"]) as hf:
        with hf.lock("orders", wait=10) as guard:
            guard.ensure()
            print(guard.token)
"""

from ._lease import ReleaseRequest
from ._recipes import Count, Tripped
from ._tree import Change, Gap, Leader, Znode
from .client import (
    Barrier,
    Client,
    Counter,
    DoubleBarrier,
    Election,
    Group,
    GroupWatch,
    Guard,
    Latch,
    Leadership,
    Lock,
    Membership,
    MultiGuard,
    MultiLock,
    Observer,
    OpenSession,
    Watch,
)
from .errors import (
    Busy,
    Error,
    InvalidArgument,
    Loss,
    Lost,
    OutcomeUnknown,
    Problem,
    Rejected,
    Unavailable,
    UnexpectedResponse,
)
from .metrics import Metrics

__version__ = "0.1.0"

__all__ = [
    "Barrier",
    "Busy",
    "Change",
    "Client",
    "Count",
    "Counter",
    "DoubleBarrier",
    "Election",
    "Error",
    "Gap",
    "Group",
    "GroupWatch",
    "Guard",
    "InvalidArgument",
    "Latch",
    "Leader",
    "Leadership",
    "Lock",
    "Loss",
    "Lost",
    "Membership",
    "Metrics",
    "MultiGuard",
    "MultiLock",
    "Observer",
    "OpenSession",
    "OutcomeUnknown",
    "Problem",
    "Rejected",
    "ReleaseRequest",
    "Tripped",
    "Unavailable",
    "UnexpectedResponse",
    "Watch",
    "Znode",
]
