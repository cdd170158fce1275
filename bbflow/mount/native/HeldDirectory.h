#pragma once

#include <string>

namespace bbflow
{

/** A directory of this process's user that no one else may write into, by a held descriptor: what
 *  others do to the path that led to it changes nothing. Below it single names are opened, and no
 *  link is followed. */
class HeldDirectory
{
public:
    HeldDirectory() = default;

    /** Holds nothing if the directory isn't there, is a link, another user's, or others may write
     * it. */
    explicit HeldDirectory(const std::string &path);
    ~HeldDirectory();
    HeldDirectory(HeldDirectory &&other) noexcept;
    HeldDirectory &operator=(HeldDirectory &&other) noexcept;
    HeldDirectory(const HeldDirectory &) = delete;
    HeldDirectory &operator=(const HeldDirectory &) = delete;

    bool IsHeld() const { return m_Descriptor >= 0; }

    /** Whether it has no name any more. */
    bool IsRemoved() const;

    /** Returns a directory in this one, of which the same must hold. */
    HeldDirectory Below(const std::string &name) const;

    /** Returns a path to what has a name in this very directory, as long as it is held. */
    std::string PathOf(const std::string &name) const;

    /** Opens a regular file of this user's with one name.
     *  @param flags of open(2), without O_TRUNC: what was opened is looked at first
     *  @throws Errno EPERM if it is anything else, or whatever open(2) says */
    int Open(const std::string &name, int flags) const;

    /** Opens a file that is empty then. @throws Errno as Open */
    int Make(const std::string &name) const;

private:
    int m_Descriptor = -1;
};

/** Opens a directory as a place (O_PATH), where no name in its path is a link: no one who can write
 *  on the way can have root take another one. @throws Errno */
int OpenPlace(const std::string &path);

} // end namespace bbflow
