#include "Rules.h"
#include "Core.h"

#include <cstdlib>
#include <cstring>

#include <fnmatch.h>

namespace bbflow
{

namespace
{

int Hex(const char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/** Puts the signs back that stand as `%` and two hex digits. */
void Unquote(char *text)
{
    char *to = text;
    for (; *text != '\0'; ++text)
    {
        if (*text == '%' && Hex(text[1]) >= 0 && Hex(text[2]) >= 0)
        {
            *to++ = static_cast<char>(16 * Hex(text[1]) + Hex(text[2]));
            text += 2;
        }
        else
        {
            *to++ = *text;
        }
    }
    *to = '\0';
}

/** Calls with key and value of each field of a rule, until that says no. */
template <class Visit>
bool AllFields(const char *rule, const Visit &visit)
{
    char *copy = strdup(rule), *rest = nullptr;
    bool all = copy != nullptr;
    for (char *field = strtok_r(copy, ";", &rest); all && field != nullptr;
         field = strtok_r(nullptr, ";", &rest))
    {
        char *value = std::strchr(field, '=');
        if (value != nullptr)
        {
            *value++ = '\0';
            Unquote(value);
            all = visit(field, value);
        }
    }
    std::free(copy);
    return all;
}

/** A pattern without a folder is about the name of the file, wherever that lies. */
bool Fits(const char *pattern, const char *file)
{
    const char *slash = std::strchr(pattern, '/') == nullptr ? std::strrchr(file, '/') : nullptr;
    return fnmatch(pattern, slash == nullptr ? file : slash + 1, FNM_NOESCAPE) == 0;
}

bool IsPattern(const char *key)
{
    return std::strcmp(key, "io") == 0 || std::strcmp(key, "file") == 0;
}

} // end empty namespace

bool ApplyRules(const Core &core, void *object, const char *io, const char *file)
{
    const char *given = std::getenv("BBFLOW_SELECT");
    char *copy = given == nullptr ? nullptr : strdup(given), *rest = nullptr;
    bool fits = false;
    for (char *rule = copy == nullptr ? nullptr : strtok_r(copy, "|", &rest);
         rule != nullptr && !fits; rule = strtok_r(nullptr, "|", &rest))
    {
        fits = AllFields(rule,
                         [&](const char *key, const char *value)
                         {
                             return !IsPattern(key) ||
                                    (std::strcmp(key, "file") == 0
                                         ? Fits(value, file)
                                         : io != nullptr && fnmatch(value, io, FNM_NOESCAPE) == 0);
                         });
        if (fits)
        {
            AllFields(rule,
                      [&](const char *key, const char *value)
                      {
                          if (!IsPattern(key))
                          {
                              core.SetParameter(object, key, value);
                          }
                          return true;
                      });
        }
    }
    std::free(copy);
    return fits;
}

} // end namespace bbflow
