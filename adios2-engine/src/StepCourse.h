#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bbflow
{

/** How a rank stands with its steps and its node: what happens goes in, what is to be done comes
 *  out. It neither sends nor waits, so that every order of events can be tried by itself. */
class StepCourse
{
public:
    /** What becomes of the open step when there is a connection again. */
    enum class Next
    {
        /** None is open, or it was dropped. */
        Nothing,
        /** The node has dropped it: the reply that said so was lost. */
        Drop,
        /** Its places are this rank's still. */
        Resume,
        /** All places are lost: it must be begun, and landed, again. */
        LandAgain
    };

    /** What is to be done when there is a connection again. */
    struct Restoring
    {
        /** Another node has taken over, or the same one with nothing in it. */
        bool IsNewNode = false;
        /** The last commit must be sent again. */
        bool SendCommit = false;
        Next Step = Next::Nothing;
    };

    /** A step is wanted; gives whether it must be asked for, or was already. */
    bool Want();

    /** Whether an answer to the wish for a step is still to come. */
    bool IsAsked() const { return m_IsAsked; }

    /** Whether an offer, or that there is none, is still to come. */
    bool IsAskedAhead() const { return m_IsAskedAhead; }

    /** It has come. */
    void TakeInOffer();

    /** The node has answered the wish for a step.
     *  @param status "ok", "discard" or "spill" */
    void Admit(size_t step, std::string_view status);

    /** The node has refused what it was asked: no answer is to come any more. */
    void TakeInRefusal();

    /** The node has answered a wish for more room, or for a step that is begun again. */
    void GiveRoom(std::string_view status);

    /** The step was committed.
     *  @param bytes those of its blocks
     *  @param asksAhead whether room for the next step was asked for, which the program has not
     *  begun yet: what comes is an offer
     *  @param further steps that were committed with it */
    void Commit(size_t bytes, bool asksAhead, size_t further = 0);

    /** The open step is given up; the node knows. */
    void Drop();

    /** The step is over, committed or dropped. */
    void End();

    /** There is a connection again.
     *  @param committed last step that the node has settled for this rank
     *  @param samePool whether the node has its pool still
     *  @param sameRoom whether what it has granted is what this rank has */
    Restoring Restore(int64_t committed, bool samePool, bool sameRoom);

    /** The step was begun again after its places were lost. */
    void BeginAgain(std::string_view status);

    /** Last step that is behind this rank, as a node is told when the connection is made again. */
    int64_t Settled() const;

    /** What the next step is expected to need. */
    size_t ExpectedBytes() const { return m_ExpectedBytes; }

    bool IsDropped() const { return m_IsDropped; }
    bool Spills() const { return m_Spills; }
    bool MustBeginAgain() const { return m_MustBeginAgain; }

private:
    size_t m_Number = 0;
    int64_t m_Settled = -1;
    /** The last commit that no reply has followed yet; -1 if the node has all. */
    int64_t m_Unconfirmed = -1;
    size_t m_ExpectedBytes = 0;
    bool m_IsOpen = false;
    bool m_IsAsked = false;
    bool m_IsAskedAhead = false;
    bool m_IsDropped = false;
    bool m_Spills = false;
    bool m_MustBeginAgain = false;
};

} // end namespace bbflow
