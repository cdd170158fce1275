#include "Merge.h"

#include "Kinds.h"

#include <cmath>
#include <type_traits>

namespace bbflow
{

namespace
{

/** The formulas of `basic.py`, each operation in IEEE's order. */
template <int FORMULA, class T>
BBFLOW_INLINE double Finished(const Fields<T> &state, const uint64_t i, const double ddof)
{
    constexpr double missing = std::numeric_limits<double>::quiet_NaN();
    const double count = double(state.Count[i]);
    if (FORMULA == BbflowMean)
    {
        return double(state.Shift[i]) + state.First[i] / count;
    }
    if (FORMULA == BbflowSum)
    {
        const double sum = double(state.Shift[i]) * count + state.First[i];
        return count > 0 ? sum : missing;
    }
    if (FORMULA == BbflowRange)
    {
        const double range = double(state.Max[i]) - double(state.Min[i]);
        return count > 0 ? range : missing;
    }
    const double first = state.First[i];
    const double squares = state.Second[i] - first * (first / count);
    // Rounding can make them negative; what is NaN stays so.
    const double variance = (squares < 0 ? 0.0 : squares) / (count - ddof);
    const double wanted = FORMULA == BbflowDeviation ? std::sqrt(variance) : variance;
    return count > ddof ? wanted : missing;
}

template <int FORMULA, class T>
BBFLOW_INLINE void FinishTo(const Fields<T> state, double *result, const uint64_t points,
                            const double ddof)
{
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        result[i] = Finished<FORMULA>(state, i, ddof);
    }
}

template <class T>
using ExtremeOf = std::conditional_t<std::is_floating_point<T>::value, T, double>;

template <class T>
BBFLOW_INLINE void ExtremeTo(const int32_t *count, const T *extreme, ExtremeOf<T> *result,
                             const uint64_t points)
{
    constexpr ExtremeOf<T> missing = std::numeric_limits<ExtremeOf<T>>::quiet_NaN();
    BBFLOW_INDEPENDENT
    for (uint64_t i = 0; i < points; ++i)
    {
        const ExtremeOf<T> value = ExtremeOf<T>(extreme[i]);
        result[i] = count[i] > 0 ? value : missing;
    }
}

} // namespace

#define define(CODE, T)                                                                            \
    BBFLOW_CLONES void FinishMean(const Fields<T> &state, double *result, const uint64_t points)   \
    {                                                                                              \
        FinishTo<BbflowMean>(state, result, points, 0);                                            \
    }                                                                                              \
    BBFLOW_CLONES void FinishVariance(const Fields<T> &state, double *result,                      \
                                      const uint64_t points, const double ddof)                    \
    {                                                                                              \
        FinishTo<BbflowVariance>(state, result, points, ddof);                                     \
    }                                                                                              \
    BBFLOW_CLONES void FinishDeviation(const Fields<T> &state, double *result,                     \
                                       const uint64_t points, const double ddof)                   \
    {                                                                                              \
        FinishTo<BbflowDeviation>(state, result, points, ddof);                                    \
    }                                                                                              \
    BBFLOW_CLONES void FinishSum(const Fields<T> &state, double *result, const uint64_t points)    \
    {                                                                                              \
        FinishTo<BbflowSum>(state, result, points, 0);                                             \
    }                                                                                              \
    BBFLOW_CLONES void FinishRange(const Fields<T> &state, double *result, const uint64_t points)  \
    {                                                                                              \
        FinishTo<BbflowRange>(state, result, points, 0);                                           \
    }                                                                                              \
    BBFLOW_CLONES void FinishExtreme(const int32_t *count, const T *extreme, ExtremeOf<T> *result, \
                                     const uint64_t points)                                        \
    {                                                                                              \
        ExtremeTo(count, extreme, result, points);                                                 \
    }
BBFLOW_FOREACH_FOLD_TYPE(define)
#undef define

template <class T>
int Finish(const int formula, const Fields<T> &state, const double ddof, void *to,
           const uint64_t points)
{
    double *const result = static_cast<double *>(to);
    switch (formula)
    {
    case BbflowMean:
        FinishMean(state, result, points);
        return 0;
    case BbflowVariance:
        FinishVariance(state, result, points, ddof);
        return 0;
    case BbflowDeviation:
        FinishDeviation(state, result, points, ddof);
        return 0;
    case BbflowSum:
        FinishSum(state, result, points);
        return 0;
    case BbflowSmallest:
        FinishExtreme(state.Count, state.Min, static_cast<ExtremeOf<T> *>(to), points);
        return 0;
    case BbflowLargest:
        FinishExtreme(state.Count, state.Max, static_cast<ExtremeOf<T> *>(to), points);
        return 0;
    case BbflowRange:
        FinishRange(state, result, points);
        return 0;
    }
    return 2;
}

} // end namespace bbflow

int bbflow_finish(const int formula, const int type, const void *const *state, const double ddof,
                  void *result, const uint64_t points)
{
    int failure = 2;
    bbflow::WithType(type,
                     [&](auto own)
                     {
                         const auto fields = bbflow::FieldsAt<decltype(own)>(state, 0);
                         failure = bbflow::Finish(formula, fields, ddof, result, points);
                     });
    return failure;
}
