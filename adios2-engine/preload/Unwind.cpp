/** What compilers need of a C++ runtime for exceptions that pass through a function with something
 * to tidy up. Only ADIOS2 throws here, and it has brought a runtime along: that one's functions are
 * looked up then, so that none has to be linked. */

#include "Core.h"

#include <dlfcn.h>
#include <unwind.h>

namespace
{

template <class Function>
Function OfTheRuntime(const char *name)
{
    return reinterpret_cast<Function>(bbflow::Core(nullptr).Find(name));
}

} // end empty namespace

extern "C"
{

    _Unwind_Reason_Code __gxx_personality_v0(int version, _Unwind_Action actions,
                                             _Unwind_Exception_Class kind,
                                             _Unwind_Exception *exception, _Unwind_Context *context)
    {
        using Real = decltype(&__gxx_personality_v0);
        return OfTheRuntime<Real>("__gxx_personality_v0")(version, actions, kind, exception,
                                                          context);
    }

    void _Unwind_Resume(_Unwind_Exception *exception)
    {
        OfTheRuntime<decltype(&_Unwind_Resume)>("_Unwind_Resume")(exception);
        __builtin_unreachable();
    }

} // extern "C"
