/** Tries an order of events: `course EVENT …`, each as its name and what it brings, with colons
 * between, such as `admit:3:ok`. Prints what is to be done after each, and in the end how the rank
 * stands. */

#include "StepCourse.h"

#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using bbflow::StepCourse;

namespace
{

std::vector<std::string> Parts(const std::string &event)
{
    std::vector<std::string> parts;
    std::istringstream in(event);
    for (std::string part; std::getline(in, part, ':');)
    {
        parts.push_back(part);
    }
    return parts;
}

std::string ToDo(const StepCourse::Restoring &restoring)
{
    static const char *const names[] = {"nothing", "drop", "resume", "land-again"};
    return std::string(restoring.IsNewNode ? "new-node," : "") +
           (restoring.SendCommit ? "send-commit," : "") + names[static_cast<int>(restoring.Step)];
}

std::string Happen(StepCourse &course, const std::vector<std::string> &event)
{
    const std::string &name = event.at(0);
    if (name == "want")
    {
        return course.Want() ? "ask" : "wait";
    }
    if (name == "next")
    {
        return course.IsAskedAhead() ? "offer" : "none";
    }
    if (name == "restore")
    {
        return ToDo(course.Restore(std::stoll(event.at(1)), event.at(2) == "same-pool",
                                   event.at(3) == "same-room"));
    }
    if (name == "admit")
    {
        course.Admit(std::stoull(event.at(1)), event.at(2));
    }
    else if (name == "commit")
    {
        course.Commit(std::stoull(event.at(1)), event.size() > 2 && event.at(2) == "ahead");
    }
    else if (name == "offered")
    {
        course.TakeInOffer();
    }
    else if (name == "refused")
    {
        course.TakeInRefusal();
    }
    else if (name == "begin-again")
    {
        course.BeginAgain(event.at(1));
    }
    else if (name == "drop")
    {
        course.Drop();
    }
    else if (name == "end")
    {
        course.End();
    }
    else
    {
        throw std::invalid_argument(name);
    }
    return "-";
}

} // end empty namespace

int main(int argc, char **argv)
{
    StepCourse course;
    for (int i = 1; i < argc; ++i)
    {
        std::cout << Happen(course, Parts(argv[i])) << ' ';
    }
    std::cout << "settled=" << course.Settled() << (course.IsDropped() ? " dropped" : "")
              << (course.Spills() ? " spills" : "") << (course.MustBeginAgain() ? " begins" : "")
              << '\n';
}
