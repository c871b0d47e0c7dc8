using System;
using System.Linq;
using System.Text.RegularExpressions;

namespace Tau.Core.Tests
{
    /// <summary>The flags of a build, and what is typed at the game's console.</summary>
    public sealed class CommandTests
    {
        [Test]
        public void NothingGivenMeansTheDefaults()
        {
            var options = Options("-batchmode -logFile out.txt --mlagents-port 5005 -nographics stray");
            Assert.True(options.Scene == null && options.Data == null && options.Profile == null, "texts");
            Assert.True(options.IgnoredSentence == null, "others' arguments are nobody's mistake");
            Assert.True(options.Pairs == null && options.MaxConcurrent == null && options.Seed == null, "numbers");
            Assert.True(options.Decisions == null && !options.TargetSensor, "decisions, sensor");
            Assert.Equal("mean 1 01", $"{options.Aggregate} {options.Window} {options.Values}");
            var rules = options.Rules;
            Assert.Equal("0.1 2500 -100 train", FormattableString.Invariant(
                $"{rules.Threshold} {rules.MaxDecisions} {rules.RewardThreshold} {rules.Split}"));
            Assert.Equal(0L, options.Quota(8, 8));
            Assert.Equal(TauOptions.DefaultDecisions, options.Quota(8, 7));
        }

        [Test]
        public void EveryFlagIsReadInBothForms()
        {
            const string Line = "--tau-pairs 8 --tau-max-concurrent 2 --tau-data Some/File.tau --tau-profile tau384 "
                + "--tau-decisions 500 --tau-target-sensor --tau-seed -5 --tau-reward difference --tau-columns 9 "
                + "--tau-threshold 0.25 --tau-max-decisions 0 --tau-reward-threshold -2.5 --tau-faithful-terminal "
                + "--tau-split evaluation --tau-aggregate majority --tau-window 20 "
                + "--tau-values pm1 --tau-scene balance";
            foreach (var line in new[] { Line, Regex.Replace(Line, " (?!--)", "=") })
            {
                var options = Options(line);
                var rules = options.Rules;
                Assert.Equal("8 2 Some/File.tau tau384", string.Join(
                    " ", options.Pairs, options.MaxConcurrent, options.Data, options.Profile));
                Assert.Equal("500 -5 balance", $"{options.Decisions} {options.Seed} {options.Scene}");
                Assert.True(options.TargetSensor && rules.FaithfulTerminal, "switches");
                Assert.Equal("difference 9 evaluation", $"{rules.Reward} {rules.Columns} {rules.Split}");
                Assert.Equal("0.25 0 -2.5", FormattableString.Invariant(
                    $"{rules.Threshold} {rules.MaxDecisions} {rules.RewardThreshold}"));
                Assert.Equal("majority 20 pm1", $"{options.Aggregate} {options.Window} {options.Values}");
                Assert.Equal(500L, options.Quota(8, 2));
            }
        }

        [Test]
        public void WrongFlagsAreToldInOneSentence()
        {
            Assert.Equal(6, Options("--tau-agents 6").Pairs);
            Assert.Equal(5, Options("--tau-pairs 3 --tau-pairs=5").Pairs, "the last counts");
            RefusedOptions("--tau-agents: 6 contradicts --tau-pairs 7, which is", "--tau-agents 6 --tau-pairs 7");
            RefusedOptions("--tau-pairs: '0' is not a whole number from 1 to 1000000; correct", "--tau-pairs 0");
            RefusedOptions("--tau-pairs: '1000001' is not a whole number", "--tau-pairs 1000001");
            RefusedOptions("--tau-window: '' is not a whole number from 1 to 1000000; correct", "--tau-window=");
            RefusedOptions("--tau-decisions: '-1' is not a whole number from 0 to ", "--tau-decisions -1");
            RefusedOptions("--tau-threshold: 'nan' is not a number; correct this flag.", "--tau-threshold nan");
            RefusedOptions(
                "--tau-profile: 'tau4' is not one of tau3, tau384; correct this flag.", "--tau-profile tau4");
            RefusedOptions("--tau-data: is empty; give a value; correct this flag.", "--tau-data=");
            RefusedOptions("--tau-data: has no value; correct this flag.", "--tau-data --tau-pairs 3");
            RefusedOptions("--tau-seed: has no value; correct this flag.", "--tau-seed");
            RefusedOptions("--tau-target-sensor: takes no value; correct this flag.", "--tau-target-sensor=1");
            Assert.Refused("Decisions 0 means no limit, and with 2 of 3 pairs at a time", () =>
                Options("--tau-decisions 0").Quota(3, 2));
            Assert.Equal(
                "`--tau-pair` is not a flag of this game and is ignored; did you mean `--tau-pairs`? "
                + "`--tau-xyzzy` is not a flag of this game and is ignored.",
                Options("--tau-pair 4 --tau-xyzzy=1").IgnoredSentence);
        }

        [Test]
        public void TheTrainCommandIsUnderstoodInFull()
        {
            var options = Train("  TRAINING  agent Tau Data/Mixed_Case.tau --agents 8 --max-concurrent=3 "
                + "--profile tau384 --decisions 500");
            Assert.Equal("Data/Mixed_Case.tau 8 3 tau384 500", string.Join(
                " ", options.Data, options.Pairs, options.MaxConcurrent, options.Profile, options.Decisions));
            Assert.Equal("My Data/tau 1.tau", Train("training agent tau \"My Data/tau 1.tau\" --agents 1").Data);
            Assert.Equal(@"C:\My Data\A.tau", Train("training agent tau --agents=1 'C:\\My Data\\A.tau'").Data);
            Assert.Equal("player's.tau", Train("training agent tau player's.tau --agents 1").Data);
        }

        [Test]
        public void OtherCommandsHaveTypesOfTheirOwn()
        {
            Assert.True(ConsoleCommand.Parse("training status") is StatusCommand, "status");
            Assert.True(ConsoleCommand.Parse("Training Cancel") is CancelCommand, "cancel");
            Assert.True(ConsoleCommand.Parse(" evaluate ") is EvaluateCommand, "evaluate");
            Assert.Equal("Is 'lantern' spelled  properly?", Ask("ask   Is 'lantern' spelled  properly? "));
            Assert.Equal("what is --agents?", Ask("ASK \"what is --agents?\""));
            var help = ((HelpCommand)ConsoleCommand.Parse("help")).Text;
            Assert.True(help.StartsWith(((HelpCommand)ConsoleCommand.Parse("training help")).Text), "help");
            foreach (var line in help.Split('\n').Where(line => !line.StartsWith(" ")))
            {
                var typed = Regex.Replace(line.Split(new[] { "  " }, StringSplitOptions.None)[0], @"[\[\]]", "");
                typed = typed.Replace(" N", " 4").Replace(" M", " 2").Replace(" P", " tau3").Replace(" D", " 9");
                Assert.True(ConsoleCommand.Parse(typed) != null, typed);
            }
        }

        [Test]
        public void WhatIsNoCommandIsRefusedWithASuggestion()
        {
            Refused("There is no command `trainig`; did you mean `training`?", "trainig agent tau x --agents 2");
            Refused("There is no command `dance`; type `help` for a list.", "dance");
            Refused("There is no command ``; type `help` for a list.", "  ");
            Refused("There is no `training` command `stat`; did you mean `status`?", "training stat");
            Refused("There is no `training` command ``; type `training help` for a list.", "training");
            Refused("There is no kind of agent `tua`; type `training help`", "training agent tua x --agents 2");
            Refused("There is no kind of agent ``; type", "training agent");
            Refused("There is no flag `--agent`; did you mean `--agents`?", "training agent tau x --agent=2");
            Refused("This command takes no arguments, but `now` follows; omit it.", "training status now");
            Refused("`training agent tau` needs one data file and the number of agents; type", "training agent tau x");
            Refused("`training agent tau` needs one data file and", "training agent tau --agents 2");
            Refused("`training agent tau` needs one data file and", "training agent tau my x --agents 2");
            Refused("--tau-agents: '0' is not a whole number from 1", "training agent tau x --agents 0");
            Refused("`ask` needs a question; type `ask What is three plus four?`.", "ask \" \"");
        }

        private static TauOptions Options(string line)
        {
            return TauOptions.Parse(line.Split(new[] { ' ' }, StringSplitOptions.RemoveEmptyEntries));
        }

        private static void RefusedOptions(string sentence, string line)
        {
            Assert.Refused(sentence, () => Options(line));
        }

        private static TauOptions Train(string line)
        {
            return ((TrainCommand)ConsoleCommand.Parse(line)).Options;
        }

        private static string Ask(string line)
        {
            return ((AskCommand)ConsoleCommand.Parse(line)).Question;
        }

        private static void Refused(string sentence, string line)
        {
            Assert.Refused(sentence, () => ConsoleCommand.Parse(line));
        }
    }
}
