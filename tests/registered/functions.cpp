// What a user would register: sums and largest values of floats, and functions that misbehave.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>

namespace
{

struct Total
{
    double Sum;
    float Max;
    int Blocks;
};

void Say(const int fd, const std::string &text)
{
    if (write(fd, text.data(), text.size()) < 0)
        std::abort();
}

/** Whether an address lies in a mapping of a file of that name. */
bool LiesIn(const void *address, const std::string &name)
{
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
    {
        size_t begin = 0, end = 0;
        std::sscanf(line.c_str(), "%zx-%zx", &begin, &end);
        const auto at = reinterpret_cast<size_t>(address);
        if (begin <= at && at < end)
            return line.find(name) != std::string::npos;
    }
    return false;
}

} // namespace

extern "C"
{
    void map_total(void *buf, size_t size, int fd)
    {
        const auto *values = static_cast<const float *>(buf);
        Total total{0, values[0], 1};
        for (size_t i = 0; i < size / sizeof(float); ++i)
        {
            total.Sum += values[i];
            total.Max = std::max(total.Max, values[i]);
        }
        if (write(fd, &total, sizeof(total)) < 0)
            std::abort();
    }

    void reduce_total(void *buf, size_t size, int fd)
    {
        const auto *parts = static_cast<const Total *>(buf);
        Total whole{0, 0, 0};
        for (size_t i = 0; i < size / sizeof(Total); ++i)
        {
            whole.Sum += parts[i].Sum;
            whole.Max = std::max(whole.Max, parts[i].Max);
            whole.Blocks += parts[i].Blocks;
        }
        char text[100];
        std::snprintf(text, sizeof(text), "%.1f %.1f %d", whole.Sum, whole.Max, whole.Blocks);
        Say(fd, text);
    }

    void map_environment(void *buf, size_t size, int fd)
    {
        std::string text;
        for (const char *name : {"NODE", "VARIABLE", "TYPE", "SHAPE", "STEPS", "STARTS", "COUNTS"})
            text += std::string(std::getenv((std::string("BBFLOW_") + name).c_str())) + "|";
        text += std::to_string(size) + "|" + (LiesIn(buf, "/pool") ? "pool" : "copy") + "\n";
        Say(fd, text);
    }

    void map_crash(void *buf, size_t, int fd)
    {
        Say(fd, "half");
        if (static_cast<const float *>(buf)[0] >= 300)
            *static_cast<volatile float *>(nullptr) = 1;
    }

    void reduce_abort(void *, size_t, int fd)
    {
        Say(fd, "half");
        std::abort();
    }

    void map_write(void *buf, size_t, int) { static_cast<volatile float *>(buf)[0] = 1; }

    void map_exit(void *, size_t, int) { std::exit(3); }
}
