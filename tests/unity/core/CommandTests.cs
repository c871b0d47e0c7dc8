using System;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>What is typed at the game's console.</summary>
    public sealed class CommandTests
    {
        [Test]
        public void TheTrainCommandIsUnderstoodInFull()
        {
            var command = Train("training agent tau Data/Mixed_Case.json --agents 8 --max-concurrent 3 "
                + "--profile tau384 --decisions 500");
            Assert.Equal("Data/Mixed_Case.json", command.File);
            Assert.Equal(8, command.Agents);
            Assert.Equal(3, command.MaxConcurrent);
            Assert.Equal("tau384", command.Profile);
            Assert.Equal(500L, command.Decisions);
            Assert.Equal(500L, command.Quota);
        }

        [Test]
        public void FlagsMayStandAnywhereAndBeWrittenWithEquals()
        {
            var command = Train("  TRAINING  Agent Tau --agents=2 Data.json ");
            Assert.Equal("Data.json", command.File);
            Assert.Equal(2, command.Agents);
            Assert.True(!command.MaxConcurrent.HasValue && !command.Decisions.HasValue, "numbers");
            Assert.True(command.Profile == null, "profile");
            Assert.Equal(0L, command.Quota);
            var turns = Train("training agent tau a --agents 2 --max-concurrent 1");
            Assert.Equal(TauOptions.DefaultDecisions, turns.Quota);
        }

        [Test]
        public void NamesWithBlanksStandInQuotes()
        {
            Assert.Equal("My Data/tau 1.json", Train("training agent tau \"My Data/tau 1.json\" --agents 1").File);
            Assert.Equal("My Data/tau 1.json", Train("training agent tau 'My Data/tau 1.json' --agents 1").File);
            Assert.Equal(@"C:\My Data\A.json", Train("training agent tau \"C:\\My Data\\A.json\" --agents 1").File);
            Assert.Equal("player's.json", Train("training agent tau player's.json --agents 1").File);
            Assert.Equal("tau384", Train("training agent tau a --agents 1 --profile=\"tau384\"").Profile);
            Refused("The quote before `a b --agents 1` is open; close it.", "training agent tau \"a b --agents 1");
        }

        [Test]
        public void OtherCommandsHaveTypesOfTheirOwn()
        {
            Assert.True(ConsoleCommand.Parse("training status") is StatusCommand, "status");
            Assert.True(ConsoleCommand.Parse("Training Cancel") is CancelCommand, "cancel");
            Assert.True(ConsoleCommand.Parse(" evaluate ") is EvaluateCommand, "evaluate");
            var help = (HelpCommand)ConsoleCommand.Parse("help");
            Assert.True(help.Topic == null && help.Text == HelpCommand.AllText, "help");
            var training = (HelpCommand)ConsoleCommand.Parse("training help");
            Assert.Equal("training", training.Topic);
            Assert.Equal(HelpCommand.TrainingText, training.Text);
        }

        [Test]
        public void AQuestionIsTakenAsItStands()
        {
            Assert.Equal("Is 'lantern' spelled  properly?", Ask("ask   Is 'lantern' spelled  properly? "));
            Assert.Equal("What's 3 - 1?", Ask("ask What's 3 - 1?"));
            Assert.Equal("what is --agents?", Ask("ASK \"what is --agents?\""));
            Refused("`ask` needs a question; type `ask What is three plus four?`.", "ask ");
            Refused("`ask` needs a question; type `ask What is three plus four?`.", "ask \" \"");
        }

        [Test]
        public void UnknownWordsComeWithASuggestion()
        {
            Refused("There is no command `trainig`; did you mean `training`?", "trainig agent tau x --agents 2");
            Refused("There is no command `evalaute`; did you mean `evaluate`?", "evalaute");
            Refused("There is no command `dance`; type `help` for a list.", "dance");
            Refused("There is no `training` command `statsu`; did you mean `status`?", "training statsu");
            Refused("There is no kind of agent `tua`; did you mean `tau`?", "training agent tua x --agents 2");
            Refused("There is no flag `--agent`; did you mean `--agents`?", "training agent tau x --agent=2");
            Refused("There is no flag `--color`; type `training help` for a list.", "training agent tau x --color red");
        }

        [Test]
        public void WhatIsMissingOrTooMuchIsTold()
        {
            Refused("There is no command; type `help` for a list.", "  ");
            Refused("`training` needs to know what to do; type `training help` for a list.", "training");
            Refused("`training status` stands alone, but `now` follows; leave it out.", "training status now");
            const string Usage =
                "type `training agent tau FILE --agents N [--max-concurrent M] [--profile P] [--decisions D]`.";
            Refused("`training agent` needs the kind of agent; " + Usage, "training agent");
            Refused("`training agent tau` needs the number of agents; " + Usage, "training agent tau x.json");
            Refused(
                "`training agent tau` needs one data file, but there is none; put a name with blanks in quotes.",
                "training agent tau --agents 2");
            Refused(
                "`training agent tau` needs one data file, but there is `my`, `x`; put a name with blanks in quotes.",
                "training agent tau my x --agents 2");
        }

        [Test]
        public void WrongValuesAreTold()
        {
            Refused(
                "--agents: '0' is not a whole number from 1 to 1000000; correct this flag.",
                "training agent tau x --agents 0");
            Refused("--agents: expected one value; correct this flag.", "training agent tau x --agents --decisions 5");
            Refused(
                "--profile: invalid choice: 'tau5' (choose from 'tau3', 'tau384'); correct this flag.",
                "training agent tau x --agents 2 --profile tau5");
            Refused(
                "--decisions: 0 is without end, and with 1 of 2 pairs at a time the others would never get their turn; "
                + "give a number of decisions.",
                "training agent tau x --agents 2 --max-concurrent 1 --decisions 0");
        }

        [Test]
        public void EveryCommandOfTheHelpIsOne()
        {
            var verbs = HelpCommand.AllText.Split('\n').Where(line => !line.StartsWith(" ")).ToList();
            Assert.Equal(7, verbs.Count);
            foreach (var line in verbs)
            {
                var typed = line.Split(new[] { "  " }, StringSplitOptions.None)[0];
                typed = typed.Replace("[", string.Empty).Replace("]", string.Empty).Replace(" N", " 4")
                    .Replace(" M", " 2").Replace(" P", " tau3").Replace(" D", " 9");
                Assert.True(ConsoleCommand.Parse(typed) != null, typed);
            }
        }

        private static TrainCommand Train(string line)
        {
            return (TrainCommand)ConsoleCommand.Parse(line);
        }

        private static string Ask(string line)
        {
            return ((AskCommand)ConsoleCommand.Parse(line)).Question;
        }

        private static void Refused(string sentence, string line)
        {
            Assert.Equal(sentence, Assert.Throws<TauException>(() => ConsoleCommand.Parse(line)).Message);
        }
    }
}
