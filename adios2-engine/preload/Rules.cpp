#include "Rules.h"
#include "Core.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fnmatch.h>
#include <strings.h>

namespace bbflow
{

namespace
{

/** A bit for each of the first rules: set when its stream's last file was opened. */
std::atomic<std::uint64_t> Over{0};
constexpr int MostRulesThatEnd = 64;

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

bool IsUntil(const char *key) { return std::strcmp(key, "until") == 0; }

bool IsOver(const int rule) { return rule < MostRulesThatEnd && (Over >> rule & 1) != 0; }

bool FitsAll(const char *rule, const char *io, const char *file)
{
    return AllFields(rule,
                     [&](const char *key, const char *value)
                     {
                         return !IsPattern(key) ||
                                (std::strcmp(key, "file") == 0
                                     ? Fits(value, file)
                                     : io != nullptr && fnmatch(value, io, FNM_NOESCAPE) == 0);
                     });
}

} // end empty namespace

Ruling ApplyRules(const Core &core, void *object, const char *io, const char *file)
{
    const char *given = std::getenv("BBFLOW_SELECT");
    char *copy = given == nullptr ? nullptr : strdup(given), *rest = nullptr;
    Ruling ruling;
    int number = 0;
    for (char *rule = copy == nullptr ? nullptr : strtok_r(copy, "|", &rest);
         rule != nullptr && !ruling.IsSelected(); rule = strtok_r(nullptr, "|", &rest), ++number)
    {
        if (IsOver(number) || !FitsAll(rule, io, file))
        {
            continue;
        }
        ruling.Rule = number;
        AllFields(rule,
                  [&](const char *key, const char *value)
                  {
                      if (IsUntil(key))
                      {
                          ruling.IsLast = Fits(value, file);
                      }
                      else if (!IsPattern(key))
                      {
                          core.SetParameter(object, key, value);
                      }
                      if (strcasecmp(key, "Stream") == 0)
                      {
                          std::snprintf(ruling.Stream, sizeof ruling.Stream, "%s", value);
                      }
                      return true;
                  });
        if (ruling.IsLast)
        {
            core.SetParameter(object, "KeepOpen", "no"); // so Close ends the stream
        }
    }
    std::free(copy);
    return ruling;
}

void NoteOpened(const Ruling &ruling)
{
    if (ruling.IsLast && ruling.Rule < MostRulesThatEnd)
    {
        Over |= std::uint64_t{1} << ruling.Rule;
    }
}

} // end namespace bbflow
