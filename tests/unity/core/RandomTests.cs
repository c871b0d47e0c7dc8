using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>Random streams of agents, bit by bit.</summary>
    public sealed class RandomTests
    {
        [Test]
        public void DrawsAreThoseOfTheSharedVectors()
        {
            var cases = ((List<object>)TestData.Vectors["random"]).Cast<Dictionary<string, object>>().ToList();
            Assert.Equal(36, cases.Count);
            foreach (var entry in cases)
            {
                var place = "seed " + entry["seed"] + " agent " + entry["agent"];
                var draws = Stream(entry);
                Assert.Sequence(
                    Numbers(entry, "uniform"), Numbers(entry, "uniform").Select(_ => draws.NextUniform()), place);
                var choices = Stream(entry);
                var count = (int)(double)entry["count"];
                Assert.Sequence(
                    Numbers(entry, "next"), Numbers(entry, "next").Select(_ => (double)choices.Next(count)), place);
            }
        }

        [Test]
        public void EveryChoiceComesUp()
        {
            var random = new AgentRandom(1, 0);
            var counts = new int[5];
            for (var draw = 0; draw < 5000; draw++)
            {
                counts[random.Next(counts.Length)]++;
            }
            Assert.True(counts.All(count => count > 850 && count < 1150), string.Join(" ", counts));
            Assert.Equal(0, random.Next(1));
        }

        [Test]
        public void SenselessArgumentsAreRefused()
        {
            Assert.Throws<ArgumentOutOfRangeException>(() => new AgentRandom(1, -1));
            Assert.Throws<ArgumentOutOfRangeException>(() => new AgentRandom(1, 0).Next(0));
        }

        private static AgentRandom Stream(Dictionary<string, object> entry)
        {
            var seed = long.Parse((string)entry["seed"], CultureInfo.InvariantCulture);
            return new AgentRandom(seed, (int)(double)entry["agent"]);
        }

        private static IEnumerable<double> Numbers(Dictionary<string, object> entry, string name)
        {
            return ((List<object>)entry[name]).Cast<double>();
        }
    }
}
