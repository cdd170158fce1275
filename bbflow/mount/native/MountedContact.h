#pragma once

#include "Contact.h"

namespace bbflow
{

/** The contact file of a mount. It is read again for addresses, which change, with the key of its
 *  first reading only: root's key must not be lent to addresses that a user wrote, by a link that
 *  now leads here and now there. */
class MountedContact
{
public:
    /** @throws std::runtime_error if it can't be read */
    explicit MountedContact(std::string path)
    : m_Path(std::move(path)), m_Key(ReadContact(m_Path, ContactOf::AnyUser).Key)
    {
    }

    /** Returns what it has now. @throws std::runtime_error as the constructor
     *  @throws Refused if it has another key */
    Contact Read() const
    {
        Contact contact = ReadContact(m_Path, ContactOf::AnyUser);
        if (contact.Key != m_Key)
        {
            throw Refused("bbflow: " + m_Path +
                          " has another key than when it was mounted: unmount, and mount again");
        }
        return contact;
    }

    const std::string &Path() const { return m_Path; }
    const std::string &Key() const { return m_Key; }

private:
    std::string m_Path;
    std::string m_Key;
};

} // end namespace bbflow
