"""A small neural network on each day's field: here one that marks where temperature changes sharply.

`python -m bbflow_workflows.functions.fronts MODEL.onnx` writes the network; any other that takes and gives an array of
shape (1, 1, lat, lon) in float32 does as well.
"""

import sys
from functools import lru_cache

import numpy as np
import xarray as xr

SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], "f4") / 8
LIMIT, SHARPNESS = 3.0, 2.0
"""Kelvin from one point to the next at which a front is as likely as none, and how fast that changes."""


def mark(dataset, model, variable):
    """Return how likely a front is at each point, by a network.

    Parameters
    ----------
    dataset
        With the field, of dimensions (lat, lon).
    model
        Path of the network.
    variable
        Name of the field.
    """
    session = _session(model)
    field = dataset[variable].transpose("lat", "lon")
    [given] = session.run(None, {session.get_inputs()[0].name: field.values.astype("f4")[np.newaxis, np.newaxis]})
    attributes = {"long_name": "likelihood of a front", "units": "1"}
    return xr.DataArray(given[0, 0], coords=field.coords, dims=field.dims, name="front", attrs=attributes)


@lru_cache
def _session(model):
    """Load a network: once in each process that calls the function."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the fold has the other cores
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def write_model(path):
    """Write the network: two convolutions, the length of what they give, and a logistic function of it."""
    from onnx import TensorProto, checker, helper, numpy_helper, save

    slopes = np.stack([SOBEL, SOBEL.T])[:, np.newaxis]
    constants = {
        "slopes": slopes,
        "limit": np.array(LIMIT, "f4"),
        "sharpness": np.array(SHARPNESS, "f4"),
        "axes": np.array([1], "i8"),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], "i8"),
    }
    nodes = [
        helper.make_node("Pad", ["field", "pads"], ["padded"], mode="edge"),
        helper.make_node("Conv", ["padded", "slopes"], ["both"]),
        helper.make_node("ReduceL2", ["both", "axes"], ["slope"], keepdims=1),
        helper.make_node("Sub", ["slope", "limit"], ["above"]),
        helper.make_node("Mul", ["above", "sharpness"], ["scaled"]),
        helper.make_node("Sigmoid", ["scaled"], ["front"]),
    ]
    shape = [1, 1, "lat", "lon"]
    graph = helper.make_graph(
        nodes,
        "fronts",
        [helper.make_tensor_value_info("field", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("front", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(model)
    save(model, path)


if __name__ == "__main__":
    write_model(sys.argv[1])
