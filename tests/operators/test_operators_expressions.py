"""Expressions give what NumPy gives, what is missing stays so, and nothing else than expressions is taken."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.operators import expressions
from bbflow.operators.expressions import parse_expression
from bbflow.operators.steps import Steps

BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod}
COMPARED = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
UNARY = {
    name: getattr(np, name) for name in ("abs", "sqrt", "exp", "log", "log10", "sin", "cos", "tan", "floor", "ceil")
}


def missing_where(missing, values):
    return np.where(missing, np.nan, np.asarray(values, "f8"))


def binary(symbol, left, right):
    return f"({left[0]} {symbol} {right[0]})", BINARY[symbol](left[1], right[1])


def compared(symbol, left, right):
    missing = np.isnan(left[1]) | np.isnan(right[1])
    return f"({left[0]} {symbol} {right[0]})", missing_where(missing, COMPARED[symbol](left[1], right[1]))


def power(base, exponent):
    missing = np.isnan(base[1]) | np.isnan(exponent[1])
    return f"({base[0]}) ** ({exponent[0]})", missing_where(missing, np.power(base[1], exponent[1]))


def called(name, inner):
    return f"{name}({inner[0]})", UNARY[name](inner[1])


def logical(word, left, right):
    function = np.logical_and if word in ("and", "&") else np.logical_or
    missing = np.isnan(left[1]) | np.isnan(right[1])
    return f"(({left[0]}) {word} ({right[0]}))", missing_where(missing, function(left[1] != 0, right[1] != 0))


def where(condition, chosen, other):
    values = np.where(condition[1] != 0, chosen[1], other[1])
    return f"where({condition[0]}, {chosen[0]}, {other[0]})", missing_where(np.isnan(condition[1]), values)


def trees(inputs):
    """Expressions with their values by NumPy."""
    names = st.sampled_from([(name, values) for name, values in inputs.items()])
    numbers = st.sampled_from([0.0, 1.0, -2.5, 1e3]).map(lambda item: (repr(item), np.full(5, item)))

    def grow(inner):
        return st.one_of(
            st.builds(binary, st.sampled_from(sorted(BINARY)), inner, inner),
            st.builds(compared, st.sampled_from(sorted(COMPARED)), inner, inner),
            st.builds(power, inner, inner),
            st.builds(called, st.sampled_from(sorted(UNARY)), inner),
            st.builds(logical, st.sampled_from(["and", "or"]), inner, inner),
            st.builds(where, inner, inner, inner),
            inner.map(lambda item: (f"isnan({item[0]})", np.isnan(item[1]).astype("f8"))),
            inner.map(lambda item: (f"-({item[0]})", -item[1])),
        )

    return st.recursive(st.one_of(names, numbers), grow, max_leaves=8)


INPUTS = {
    "u": np.array([0.0, 1, -2, np.nan, np.inf]),
    "v": np.array([3.0, 0, 0.5, 2, np.nan]),
    "w": np.array([-1.0, 4, np.nan, 1, 0]),
    "one": np.ones(5),
}


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_expression_gives_what_numpy_gives(data):
    with np.errstate(all="ignore"):
        text, expected = data.draw(trees(INPUTS))
    expression = parse_expression(f"({text}) + one")  # numbers alone are no expression
    (found,) = expression.evaluate({name: Steps([INPUTS[name]]) for name in expression.variables})
    np.testing.assert_allclose(found, expected + INPUTS["one"], rtol=1e-12)


def evaluated(text, fill=None, **values):
    arrays = {name: np.asarray(item) for name, item in values.items()}
    steps = {name: Steps([item], None if fill is None else np.array(fill, item.dtype)) for name, item in arrays.items()}
    (result,) = parse_expression(text).evaluate(steps)
    return result


def test_comparisons_give_one_zero_and_missing():
    assert np.array_equal(evaluated("a > 1", a=[0.0, 2.0, np.nan]), [0, 1, np.nan], equal_nan=True)
    assert np.array_equal(evaluated("a > 1", fill=9, a=np.array([0, 2, 9], "i4")), [0, 1, np.nan], equal_nan=True)
    assert evaluated("0 < a < 2 < 3", a=[-1.0, 1.0, 2.0]).tolist() == [0, 1, 0]
    assert evaluated("(a > 0) & ~(b > 0) | (b == 5)", a=[1.0, 1.0, -1.0], b=[0.0, 1.0, 5.0]).tolist() == [1, 0, 1]


def test_what_is_missing_stays_so_where_ieee_gives_a_number():
    assert np.isnan(evaluated("a ** 0", a=[np.nan])).all()
    assert np.isnan(evaluated("1 ** a", a=[np.nan])).all()
    assert np.isnan(evaluated("hypot(a, 1e999)", a=[np.nan])).all()
    assert np.isnan(evaluated("(a > 0) or 1 > 0", a=[np.nan])).all()


def test_gaps_can_be_filled_from_another_variable():
    assert evaluated("where(isnan(a), b, a)", a=[1.0, np.nan], b=[np.nan, 7.0]).tolist() == [1, 7]


def test_a_float32_is_compared_with_the_number_as_it_was_written():
    value = np.array([298.15], "f4")  # 298.149994
    assert evaluated("a < 298.15", a=value).tolist() == [1]
    assert evaluated("298.15 <= a", a=value).tolist() == [0]


@pytest.mark.parametrize(("types", "expected"), [
    (("f4", "f4"), "f4"), (("f4", "i2"), "f4"), (("u1", "f2"), "f4"), (("f4", "f8"), "f8"), (("f4", "i4"), "f8"),
])  # fmt: skip
def test_results_are_float32_where_that_holds_all_inputs(types, expected):
    expression = parse_expression("where(u > 0.5, u * 2.5 + v, pi)")
    dtypes = dict(zip("uv", map(np.dtype, types), strict=True))
    assert expression.dtype(dtypes) == expected
    steps = {name: Steps([np.ones(3, dtype)] * 2) for name, dtype in dtypes.items()}
    assert [block.dtype for block in expression.evaluate(steps)] == [expected, expected]


def test_blocks_longer_than_a_tile_are_computed_in_full():
    values = np.arange(3 * expressions.TILE_POINTS + 5, dtype="f4")
    np.testing.assert_array_equal(evaluated("a + 1", a=values), values + 1)


def test_expressions_are_frozen_hashable_and_picklable():
    expression = parse_expression(" sqrt(`10m/u-wind`**2 + 'v.x'**2) + `10m/u-wind`")
    assert expression.variables == ("10m/u-wind", "v.x")
    assert {pickle.loads(pickle.dumps(expression))} == {expression, parse_expression(expression.text)}
    assert not expression.is_plain
    assert [parse_expression(text).is_plain for text in ("tas", "`t.2m`", "(tas)", "-tas")] == [True, True, True, False]


@pytest.mark.parametrize(("text", "says"), [
    ("sqr(u)", "did you mean 'sqrt'"),
    ("u +* v", r"'\* v' \(character 4\) is not understood"),
    ("v + u.x", r"'u.x' \(character 5\) is not allowed"),
    ("u.__class__", "not allowed"),
    ("u[0]", "not allowed"),
    ("(lambda: u)()", "only functions can be called"),
    ("lambda: u", "not allowed"),
    ("__import__('os').system('ls')", "only functions can be called"),
    ("__import__('os')", "unknown function"),
    ("open('f')", "unknown function"),
    ("[u for u in v]", "not allowed"),
    ("{u}", "not allowed"),
    ("u if v else w", "not allowed"),
    ("(u := 1)", "not allowed"),
    ("f'{u}'", "not allowed"),
    ("b'u' * u", "neither a real number"),
    ("'u\\n' * u", "nothing may have"),
    ("'' * u", "neither a real number nor a variable's name"),
    ("u # v", "nothing may have"),
    ("u; v", "not understood"),
    ("u = v", "not understood"),
    ("True * u", "neither a real number"),
    ("2j * u", "neither a real number"),
    ("... * u", "neither a real number"),
    ("u @ v", "not allowed"),
    ("u << 100000", "not allowed"),
    ("u is v", "not allowed"),
    ("u in v", "not allowed"),
    ("sin(u, v)", "takes 1 argument"),
    ("min(u)", "takes 2 or more"),
    ("where(u, v)", "takes 3"),
    ("sin(x=u)", "without names"),
    ("min(*u)", "takes 2"),
    ("min(*u, v)", "not allowed"),
    ("u > 1 & v > 2", "each comparison in brackets"),
    ("u > v & v > w", "each comparison in brackets"),
    ("~u > 1", "each comparison in brackets"),
    ("1 + 2", "no variable"),
    ("", "is not an expression"),
    (3, "is not an expression"),
    ("u\x00v", "not understood"),
    ("é +* u", r"character 4"),
    ("9" * 400 + " * u", "too large a number"),
    ("9" * 3000, "3000 characters; the limit is 2000"),
    ("(" * 900 + "u" + ")" * 900, "nested deeper than 100"),
    ("-" * 1900 + "u", "nested deeper than 100"),
    ("not " * 400 + "u", "nested deeper than 100"),
    ("+".join("u" * 900), "nested deeper than 100"),
    ("**".join("u" * 600), "nested deeper than 100"),
    ("sin(" * 500, "nested deeper than 100"),
])  # fmt: skip
def test_what_is_no_expression_is_refused_with_the_place(text, says):
    with pytest.raises(ConfigError, match=says):
        parse_expression(text)


def test_towers_of_powers_are_infinite_at_once():
    assert np.isinf(evaluated("9 ** 9 ** 9 ** 9 * a", a=[1.0])).all()


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="uv01.e+-*/%&|~<>=!()[]{}'\"`,:;#\\ \n", max_size=40))
def test_any_text_is_an_expression_or_a_config_error(text):
    try:
        expression = parse_expression(text)
    except ConfigError:
        return
    (result,) = expression.evaluate({name: Steps([np.array([1.0, np.nan])]) for name in expression.variables})
    assert result.shape == (2,)
