#pragma once

#include <dlfcn.h>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace bbflow
{

/** A shared library of the host, found when it is first needed: who doesn't need it needn't have
 * it. */
class Library
{
public:
    /** @param names of which the host needs one; the first that it has stays loaded
     *  @param why ends the message: what it is needed for
     *  @throws std::invalid_argument if it has none */
    Library(const std::initializer_list<const char *> names, const std::string &why)
    {
        std::string reason;
        for (const char *name : names)
        {
            m_Handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
            if (m_Handle != nullptr)
            {
                m_Name = name;
                return;
            }
            reason = reason.empty() ? dlerror() : reason;
        }
        throw std::invalid_argument("bbflow: " + why + " needs OpenSSL's " + *names.begin() +
                                    " on this host: " + reason);
    }

    /** @throws std::invalid_argument if it lacks the function */
    template <class Function>
    void Find(const char *name, Function &function) const
    {
        function = reinterpret_cast<Function>(dlsym(m_Handle, name));
        if (function == nullptr)
        {
            throw std::invalid_argument("bbflow: " + m_Name + " of this host lacks " + name);
        }
    }

private:
    void *m_Handle = nullptr;
    std::string m_Name;
};

} // end namespace bbflow
