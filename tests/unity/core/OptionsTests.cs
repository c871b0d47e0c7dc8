using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>The flags of a build.</summary>
    public sealed class OptionsTests
    {
        [Test]
        public void NothingGivenMeansTheDefaults()
        {
            var options = Parse(string.Empty);
            Assert.True(options.Scene == null && options.Data == null && options.IgnoredSentence == null, "texts");
            Assert.Equal("tau3", options.Profile);
            Assert.True(!options.Pairs.HasValue && !options.MaxConcurrent.HasValue, "numbers of pairs");
            Assert.True(!options.Seed.HasValue, "seed");
            Assert.Equal(0L, options.Decisions);
            Assert.True(!options.TargetSensor && !options.Given("--tau-target-sensor"), "target sensor");
            Assert.Equal("mean 1 01", $"{options.Aggregate} {options.Window} {options.Values}");
            Assert.Equal(0.1, options.Rules.Threshold);
            Assert.Equal(0L, options.Quota(1000));
        }

        [Test]
        public void EveryFlagIsReadInBothForms()
        {
            const string Line = "--tau-pairs 8 --tau-max-concurrent 2 --tau-data Some/File.json --tau-profile tau384 "
                + "--tau-decisions 500 --tau-target-sensor --tau-seed -5 --tau-reward difference --tau-columns 9 "
                + "--tau-threshold 0.25 --tau-max-decisions 0 --tau-reward-threshold -2.5 --tau-faithful-terminal "
                + "--tau-split evaluation --tau-aggregate majority --tau-window 20 "
                + "--tau-values pm1 --tau-scene balance";
            foreach (var line in new[] { Line, System.Text.RegularExpressions.Regex.Replace(Line, " (?!--)", "=") })
            {
                var options = Parse(line);
                Assert.Equal(8, options.Pairs);
                Assert.Equal(2, options.MaxConcurrent);
                Assert.Equal("Some/File.json", options.Data);
                Assert.Equal("tau384", options.Profile);
                Assert.Equal(500L, options.Decisions);
                Assert.Equal(500L, options.Quota(8));
                Assert.True(options.TargetSensor, "target sensor");
                Assert.Equal(-5L, options.Seed);
                Assert.Equal("difference 9", $"{options.Rules.Reward} {options.Rules.Columns}");
                Assert.Equal(0.25, options.Rules.Threshold);
                Assert.Equal(0, options.Rules.MaxDecisions);
                Assert.Equal(-2.5, options.Rules.RewardThreshold);
                Assert.True(options.Rules.FaithfulTerminal, "terminal");
                Assert.Equal("evaluation", options.Rules.Split);
                Assert.Equal("majority 20 pm1", $"{options.Aggregate} {options.Window} {options.Values}");
                Assert.Equal("balance", options.Scene);
            }
        }

        [Test]
        public void AgentsIsAnotherNameForPairs()
        {
            Assert.Equal(6, Parse("--tau-agents 6").Pairs);
            Assert.True(Parse("--tau-agents 6").Given("--tau-pairs"), "pairs are given");
            Assert.True(!Parse("--tau-profile tau3").Given("--tau-pairs"), "pairs are not given");
            Assert.Equal(6, Parse("--tau-agents 6 --tau-pairs 6").Pairs);
            Refused(
                "--tau-agents: 6 contradicts --tau-pairs 7, which is the same; give one of them.",
                "--tau-agents 6 --tau-pairs 7");
        }

        [Test]
        public void ArgumentsOfOthersAreIgnored()
        {
            var options = Parse("-batchmode -logFile out.txt --mlagents-port 5005 --tau-pairs 3 -nographics stray");
            Assert.Equal(3, options.Pairs);
            Assert.True(options.IgnoredSentence == null, "nobody's mistake");
        }

        [Test]
        public void AMistypedFlagIsIgnoredButTold()
        {
            var options = Parse("--tau-pair 4 --tau-xyzzy=1");
            Assert.True(!options.Pairs.HasValue, "pairs");
            Assert.Equal(
                "`--tau-pair` is no flag of this game and is ignored; did you mean `--tau-pairs`? "
                + "`--tau-xyzzy` is no flag of this game and is ignored.",
                options.IgnoredSentence);
        }

        [Test]
        public void OfARepeatedFlagTheLastCounts()
        {
            Assert.Equal(5, Parse("--tau-pairs 3 --tau-pairs=5").Pairs);
        }

        [Test]
        public void WrongValuesAreToldInOneSentence()
        {
            Refused("--tau-pairs: '0' is not a whole number from 1 to 1000000; correct this flag.", "--tau-pairs 0");
            Refused("--tau-pairs: 'x' is not a whole number from 1 to 1000000; correct this flag.", "--tau-pairs=x");
            Refused("--tau-window: '' is not a whole number from 1 to 1000000; correct this flag.", "--tau-window=");
            Refused(
                "--tau-decisions: '-1' is not a whole number of at least 0; correct this flag.", "--tau-decisions -1");
            Refused("--tau-seed: 'x' is not a whole number; correct this flag.", "--tau-seed x");
            Refused("--tau-threshold: '0' is not a number of at least 1e-09; correct this flag.", "--tau-threshold 0");
            Refused("--tau-reward-threshold: 'nan' is not a number; correct this flag.", "--tau-reward-threshold nan");
            Refused(
                "--tau-profile: invalid choice: 'tau4' (choose from 'tau3', 'tau384'); correct this flag.",
                "--tau-profile tau4");
            Refused("--tau-data: is empty; give a value; correct this flag.", "--tau-data=");
            Refused("--tau-target-sensor: takes no value; correct this flag.", "--tau-target-sensor=1");
            Refused("`columns` is 4, but profile `tau3` has the columns 1 to 3.", "--tau-columns 4");
        }

        [Test]
        public void AMissingValueIsNotTheNextFlag()
        {
            Refused("--tau-data: expected one value; correct this flag.", "--tau-data --tau-pairs 3");
            Refused("--tau-data: expected one value; correct this flag.", "--tau-data -batchmode");
            Refused("--tau-data: expected one value; correct this flag.", "--tau-data");
            Assert.Equal(-100.5, Parse("--tau-reward-threshold -100.5").Rules.RewardThreshold);
            Assert.Equal(-0.5, Parse("--tau-reward-threshold -.5").Rules.RewardThreshold);
        }

        [Test]
        public void PairsThatTakeTurnsHaveAnEnd()
        {
            Assert.Equal(TauOptions.DefaultDecisions, Parse("--tau-pairs 4 --tau-max-concurrent 2").Quota(4));
            Assert.Equal(TauOptions.DefaultDecisions, Parse("--tau-max-concurrent 2").Quota(4));
            Assert.Equal(0L, Parse("--tau-max-concurrent 4").Quota(4));
            Assert.Equal(0L, Parse("--tau-pairs 4 --tau-decisions 0").Quota(4));
            Refused(
                "--tau-decisions: 0 is without end, and with 2 of 4 pairs at a time the others would never get their "
                + "turn; give a number of decisions.",
                "--tau-pairs 4 --tau-max-concurrent 2 --tau-decisions 0");
        }

        [Test]
        public void TheHelpNamesEveryFlag()
        {
            foreach (var flag in new[]
            {
                "pairs", "agents", "max-concurrent", "data", "profile", "decisions", "target-sensor", "seed", "reward",
                "columns", "threshold", "max-decisions", "reward-threshold", "faithful-terminal", "split", "aggregate",
                "window", "values", "scene",
            })
            {
                Assert.Contains("--tau-" + flag, TauOptions.HelpText);
            }
            Assert.True(TauOptions.HelpText.Split('\n').All(line => line.Length <= 100), "a line is too long");
        }

        private static TauOptions Parse(string line)
        {
            return TauOptions.Parse(line.Split(' ').Where(word => word.Length > 0).ToArray());
        }

        private static void Refused(string sentence, string line)
        {
            Assert.Equal(sentence, Assert.Throws<TauException>(() => Parse(line)).Message);
        }
    }
}
