"""Compare the time of calls with the ideal: distinct calls x latency / concurrency.

    PYTHONPATH=tests python benchmarks/calls.py [--chain 4] [--latency 0.2] [--concurrency 16] [--faults 0]

Every question is a chain of calls, each of which needs the reply to the previous one, as in a judged metric. The server
(tests/llm_server) runs in a separate process. The bar without faults is 1.15 x the ideal.
"""

import argparse
import multiprocessing
import resource
import time
from multiprocessing.connection import Connection

from llm_server import TRANSIENT, LlmServer
from ragsweep.services.endpoint import Endpoint

BAR = 1.15
LEFT_OUT = {"rate_limited_date", "big_body"}  # faults that wait for whole seconds, or send 50 MB


def serve(pipe: Connection, latency: float, faults: float) -> None:
    """Run the server until it is stopped; then send the number of requests."""
    kinds = sorted(TRANSIENT.keys() - LEFT_OUT)
    shares = {kind: faults / len(kinds) for kind in kinds if faults}
    with LlmServer(latency=latency, faults=shares, hang=60, retry_after=0.2) as server:
        pipe.send(server.base_url)
        pipe.recv()
        pipe.send((len(server.log), len(server.answered), server.most_open))


def measure(base_url: str, given: argparse.Namespace) -> tuple[float, float, float]:
    """Ask all questions; return wall seconds, processor seconds, and seconds until the first question was done."""
    endpoint = Endpoint(base_url, "m", timeout=2, concurrency=given.concurrency)
    done: list[float] = []

    async def chain(number: int) -> str:
        text = f"question {number} " + "with a context of some length " * 100
        for step in range(given.chain):
            reply = await endpoint.chat([{"role": "user", "content": f"{step} {text}"}], temperature=0)
            text = f"{reply.text} {text[:3000]}"
        return text

    begin, processor = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    endpoint.each(range(given.questions), chain, lambda *_: done.append(time.perf_counter() - begin))
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - processor
    return time.perf_counter() - begin, spent, done[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--chain", type=int, default=4)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--faults", type=float, default=0.0, help="share of requests that fail, of mixed kinds")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=serve, args=(its, given.latency, given.faults))
    process.start()
    seconds, processor, first = measure(ours.recv(), given)
    ours.send("end")
    requests, answered, most = ours.recv()
    process.join()
    calls = given.questions * given.chain
    ideal = calls * given.latency / given.concurrency
    print(f"{calls} calls ({given.questions} chains of {given.chain}), {given.latency * 1000:.0f} ms, {most} at a time")
    print(f"{seconds:.2f} s, ideal {ideal:.2f} s: {seconds / ideal:.3f} x (bar without faults: {BAR} x)")
    print(f"first question done after {first:.2f} s; {processor / calls * 1000:.2f} ms of the processor a call")
    print(f"{requests} requests, {requests / calls:.3f} a call; {answered} answered well")


if __name__ == "__main__":
    main()
