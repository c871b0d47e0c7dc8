using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text.Json;

namespace Tau.Core.Tests
{
    /// <summary>Formulas, windows, episodes, draws and decoding by the cases that Python is held to as well.</summary>
    public sealed class RewardTests
    {
        [Test]
        public void FormulasEarnWhatTheSharedCasesSay()
        {
            var names = Cases("reward_types").Select(name => name.GetString()).ToList();
            Assert.Sequence(names, RewardFormulas.Names);
            foreach (var entry in Cases("rewards"))
            {
                foreach (var reward in entry.GetProperty("rewards").EnumerateObject())
                {
                    var earned = RewardFormulas.Get(reward.Name)(
                        Floats(entry, "output"), Floats(entry, "target"), Number(entry, "threshold"),
                        (int)Number(entry, "columns"));
                    var what = entry.GetProperty("name").GetString() + ", " + reward.Name;
                    Assert.Near(reward.Value.GetDouble(), earned, Number(entry, "tolerance"), what);
                }
            }
        }

        [Test]
        public void AnErrorOfExactlyTheThresholdIsWrong()
        {
            Assert.Equal(-1.0, RewardFormulas.Binary(new[] { 0.25f }, new[] { 0.5f }, 0.25, 1));
            Assert.Equal(1.0, RewardFormulas.Binary(new[] { 0.2500001f }, new[] { 0.5f }, 0.25, 1));
        }

        [Test]
        public void NumbersStandForNames()
        {
            for (var index = 0; index < 5; index++)
            {
                Assert.Equal(RewardFormulas.Names[index], RewardFormulas.NameByIndex(index));
            }
            foreach (var index in new[] { 2.5f, -1f, 5f, float.NaN })
            {
                Assert.Refused("Environment parameter `reward_type` is ", () => RewardFormulas.NameByIndex(index));
            }
            Assert.Refused("There is no reward formula `sigmoid`; choose one of `binary`, `difference`,", () =>
                RewardFormulas.Get("sigmoid"));
        }

        [Test]
        public void ProfilesAreThoseOfPython()
        {
            var profiles = new[] { TauProfile.ByIndex(0f), TauProfile.ByIndex(1f) };
            Assert.Sequence(new[] { "tau384 384 binary", "tau3 3 incremental" }, profiles.Select(
                profile => $"{profile.Name} {profile.ActionSize} {profile.Reward}"));
            Assert.True(ReferenceEquals(TauProfile.Get("tau3"), profiles[1]));
            Assert.Refused("There is no Tau profile `tau4`; choose `tau3` or `tau384`.", () => TauProfile.Get("tau4"));
            Assert.Refused("Environment parameter `profile` is 0.5; use 0 (", () => TauProfile.ByIndex(0.5f));
        }

        [Test]
        public void WindowsJudgeAsTheSharedCasesSay()
        {
            foreach (var entry in Cases("windows"))
            {
                var window = new RewardWindow(
                    entry.GetProperty("aggregate").GetString(), (int)Number(entry, "window"),
                    entry.GetProperty("values").GetString());
                var expected = entry.GetProperty("expected").EnumerateArray()
                    .Select(value => value.GetDouble()).ToList();
                for (var time = 0; time < 2; time++)
                {
                    Assert.Near(Number(entry, "empty"), window.Value, 0.0, entry + " empty");
                    var steps = entry.GetProperty("steps").GetString();
                    for (var index = 0; index < steps.Length; index++)
                    {
                        Assert.Near(expected[index], window.Push(steps[index] == '1'), 1e-12, $"{entry} {index}");
                        Assert.Near(expected[index], window.Value, 1e-12, $"{entry} {index}");
                    }
                    window.Clear(); // a window that was emptied is like a new one
                }
            }
            Assert.Refused("Reward `aggregate` is `median`; choose one of `mean`,", () => new RewardWindow("median"));
            Assert.Refused("Reward `window` must be at least 1 step", () => new RewardWindow("mean", 0));
            Assert.Refused("Reward `window` must be at least 1 step", () => new RewardWindow("mean", 1, "10"));
        }

        [Test]
        public void EpisodesEndWhereTheSharedCasesSay()
        {
            foreach (var entry in Cases("episodes"))
            {
                var given = entry.GetProperty("rules");
                var rules = new TauRules().Updated(
                    name => given.TryGetProperty(name, out var value) ? (float?)value.GetDouble() : null);
                var episode = new Episode();
                var ends = entry.GetProperty("rewards").EnumerateArray()
                    .Select(reward => episode.Add(reward.GetDouble(), rules).ToString().ToLowerInvariant());
                Assert.Sequence(
                    entry.GetProperty("ends").EnumerateArray().Select(end => end.GetString()), ends, given.ToString());
            }
        }

        [Test]
        public void DrawsAreThoseOfTheSharedCases()
        {
            foreach (var entry in Cases("random"))
            {
                var seed = long.Parse(entry.GetProperty("seed").GetString(), CultureInfo.InvariantCulture);
                var random = new AgentRandom(seed, (int)Number(entry, "agent"));
                var wanted = entry.GetProperty("next").EnumerateArray().Select(value => value.GetInt32()).ToList();
                Assert.Sequence(wanted, wanted.Select(_ => random.Next((int)Number(entry, "count"))), entry.ToString());
            }
        }

        [Test]
        public void TheNearestTargetIsRightAndOfTiesTheFirst()
        {
            foreach (var entry in Cases("nearest"))
            {
                var targets = entry.GetProperty("targets").EnumerateArray().Select(Floats).ToArray();
                Assert.Equal(
                    (int)Number(entry, "index"), Decoding.Nearest(Floats(entry, "output"), targets, targets.Length));
            }
            var two = new[] { new[] { 0f }, new[] { 1f } };
            Assert.Equal(1, Decoding.Nearest(new[] { 0.9f }, two, 2));
            Assert.Equal(0, Decoding.Nearest(new[] { 0.9f }, two, 1));
            Assert.Refused("The policy's output is not finite", () => Decoding.Nearest(new[] { float.NaN }, two, 2));
        }

        private static IEnumerable<JsonElement> Cases(string section)
        {
            var cases = TestRunner.Vectors.GetProperty(section).EnumerateArray().ToList();
            Assert.True(cases.Count >= 5, "no cases in " + section);
            return cases;
        }

        private static double Number(JsonElement entry, string name)
        {
            return entry.GetProperty(name).GetDouble();
        }

        private static float[] Floats(JsonElement entry, string name)
        {
            return Floats(entry.GetProperty(name));
        }

        private static float[] Floats(JsonElement numbers)
        {
            return numbers.EnumerateArray().Select(value => (float)value.GetDouble()).ToArray();
        }
    }
}
