"""The one table of codec examples: every codec has its rows here, and every law is tested on every row."""

EXAMPLES = (
    "identity",
    "identity:dtype=float16",
    "identity:dtype=bfloat16",
    "topk:k=0.1",
    "topk:k=1.0",
    "topk:k=0.05,values=float16",
    "topk:k=0.3,values=bfloat16",
    "randomk:k=0.1",
    "randomk:k=0.75,scale=true",
    "randomk:k=0.2,scale=true,values=bfloat16",
    "rtopk:k=0.05,r=0.2",
    "rtopk:k=0.1,r=0.1",
    "rtopk:k=0.1,r=1.0,values=float16",
)
