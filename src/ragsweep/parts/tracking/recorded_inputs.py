"""Read the requests to an application from its traces in MLflow."""

from pathlib import Path
from typing import Any

from ragsweep.core.errors import InputError, nearest
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.database import absolute_uri, database_path, mask_uri

PAGE = 200


def read_root_inputs(uri: str, experiment: str) -> list[Any]:
    """Return the inputs of the root span of every trace in an experiment.

    Raises InputError if there is no such database or experiment, and TrackingError if MLflow cannot be reached.
    """
    place = absolute_uri(uri)
    path = database_path(place)
    if path and not path.exists():  # MLflow would create it
        raise InputError(
            f"{path}: no such file (current folder: {Path.cwd()}); set traces to sqlite:///FILE or a server's address"
        )
    connection = Connection.to(place)
    with connection.opened():
        client = connection.client
        found = client.get_experiment_by_name(experiment)
        if found is None:
            known = nearest(experiment, [one.name for one in client.search_experiments()])
            raise InputError(f'{mask_uri(uri)}: no experiment "{experiment}"{known or "; correct the address"}')
        inputs: list[Any] = []
        token: str | None = None
        while True:
            traces = client.search_traces(locations=[found.experiment_id], max_results=PAGE, page_token=token)
            inputs += [span.inputs for trace in traces for span in trace.data.spans if span.parent_id is None]
            token = traces.token
            if not token:
                return inputs
