#pragma once

#include "Landing.h"
#include "SpillPhase.h"
#include "SpillTable.h"

#include <string>

namespace bbflow
{

/** A rank's blocks of one step that its node had no room for, in a file on the PFS (FORMAT.md,
 *  "Spill directory"). Unless it is committed it goes with this object. */
class SpillFile final : public Landing
{
public:
    /** @throws std::runtime_error if the file can't be made */
    SpillFile(const std::string &directory, const std::string &stream, size_t step, size_t rank);
    ~SpillFile() override;
    SpillFile(const SpillFile &) = delete;
    SpillFile &operator=(const SpillFile &) = delete;

    /** A stream's name as part of a file's name: it may hold a slash. */
    static std::string NameOf(const std::string &stream);

    /** Returns the place of the next block. */
    size_t Take(size_t bytes);

    /** @throws std::runtime_error if the file system takes no more */
    void Land(const char *source, size_t bytes, size_t offset, Scan &scan) override;
    void Sync() override {}
    void GoOn(Channel &, FabricRoute *) override {}
    bool NeedsMemory() const override { return false; }

    /** Writes the table and closes the file, so that other hosts see all of it.
     *  @throws std::runtime_error if the file system has lost something */
    void Finish();

    /** Keeps the file: its step is committed. */
    void Keep() { m_Stays = true; }

    const std::string &Path() const { return m_Path; }

private:
    SpillPhase m_Phase;
    std::string m_Path;
    int m_File;
    size_t m_Used = 0;
    SpillTable m_Table;
    bool m_Stays = false;

    /** Returns false if the file is there already and O_EXCL is among the flags. */
    bool Open(int flags);
    void Write(const char *bytes, size_t n, size_t offset);
    [[noreturn]] void ThrowError() const;
};

} // end namespace bbflow
