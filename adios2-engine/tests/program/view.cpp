/** The view over nodes on its own. Reads one JSON value per line: first the nodes' names, then
 * `{"node": i, "reply": {...}}`, `{"lose": i}`, `{"forget": step}` or `{"after": step}`, and
 * answers each of the last with what comes next. */

#include "Json.h"
#include "ReadView.h"

#include <iostream>
#include <string>

namespace
{

constexpr const char *Names[] = {"ready", "wait", "end", "failure"};

void Do(bbflow::ReadView &view, const bbflow::Value &command)
{
    if (const bbflow::Value *reply = command.Find("reply"))
    {
        std::vector<bbflow::StepPart> steps;
        for (const bbflow::Value &step : reply->ArrayAt("steps"))
        {
            steps.push_back({step.IntegerAt("step"), step.UnsignedAt("ranks")});
        }
        view.Update(command.UnsignedAt("node"), *reply, std::move(steps));
    }
    else if (command.Find("lose"))
    {
        view.Lose(command.UnsignedAt("lose"));
    }
    else if (command.Find("forget"))
    {
        view.Forget(command.Find("forget")->AsSigned());
    }
    else
    {
        const bbflow::Next next = view.After(command.Find("after")->AsSigned());
        std::cout << Names[static_cast<int>(next.What)] << ' ' << next.Step << std::endl;
    }
}

} // end empty namespace

int main()
{
    std::string line;
    std::getline(std::cin, line);
    const bbflow::Value names = bbflow::ParseJson(line);
    std::vector<std::string> nodes;
    for (const bbflow::Value &name : names.Items())
    {
        nodes.push_back(name.Text());
    }
    bbflow::ReadView view(nodes);
    while (std::getline(std::cin, line))
    {
        Do(view, bbflow::ParseJson(line));
    }
    return 0;
}
