using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>Reward formulas and success predicates against the shared vectors.</summary>
    public sealed class RewardTests
    {
        [Test]
        public void FormulasEarnWhatTheSharedVectorsSay()
        {
            var cases = Cases("rewards");
            Assert.True(cases.Count > 80, "only " + cases.Count + " cases");
            foreach (var entry in cases)
            {
                foreach (var expected in (Dictionary<string, object>)entry["rewards"])
                {
                    var formula = RewardFormulas.Get(expected.Key);
                    var earned = formula(
                        Floats(entry, "output"), Floats(entry, "target"), (double)entry["threshold"], Columns(entry));
                    var place = entry["name"] + ", " + expected.Key;
                    Assert.Equal((double)expected.Value, earned, (double)entry["tolerance"], place);
                }
            }
        }

        [Test]
        public void HandMadeVectorsComeFirst()
        {
            var names = Cases("rewards").Take(4).Select(entry => (string)entry["name"]);
            Assert.Sequence(
                new[] { "output is target", "all errors 0.05", "all errors 2", "errors 0.05, 0.05, 0.5" }, names);
        }

        [Test]
        public void ComponentsEarnWhatTheSharedVectorsSay()
        {
            foreach (var entry in Cases("components"))
            {
                var name = (string)entry["formula"];
                var output = Floats(entry, "output");
                var target = Floats(entry, "target");
                var threshold = (double)entry["threshold"];
                var earned = RewardFormulas.Components(name, output, target, threshold, Columns(entry));
                Assert.Sequence(((List<object>)entry["components"]).Cast<double>(), earned, name);
                var mean = earned.Take(Columns(entry)).Average();
                Assert.Equal(RewardFormulas.Get(name)(output, target, threshold, Columns(entry)), mean, 1e-12, name);
            }
        }

        [Test]
        public void PredicatesJudgeAsTheSharedVectorsSay()
        {
            foreach (var entry in Cases("predicates"))
            {
                Assert.Equal((bool)entry["success"], Judge(entry), string.Join(", ", entry));
            }
        }

        [Test]
        public void NumbersStandForNames()
        {
            var names = ((List<object>)TestData.Vectors["reward_types"]).Cast<string>().ToList();
            Assert.Sequence(names, RewardFormulas.Names);
            for (var index = 0; index < names.Count; index++)
            {
                Assert.Equal(names[index], RewardFormulas.NameByIndex(index));
            }
            Assert.Equal(
                "Environment parameter `reward_type` is 2.5, which stands for no formula; use 0 (`binary`), "
                + "1 (`difference`), 2 (`incremental`), 3 (`binary_strict`), 4 (`binary01`).",
                Assert.Throws<TauException>(() => RewardFormulas.NameByIndex(2.5f)).Message);
            Assert.Throws<TauException>(() => RewardFormulas.NameByIndex(float.NaN));
        }

        [Test]
        public void UnknownNamesAreRefused()
        {
            Assert.Equal(
                "There is no reward formula `sigmoid`; choose one of `binary`, `difference`, `incremental`, "
                + "`binary_strict`, `binary01`.",
                Assert.Throws<TauException>(() => RewardFormulas.Get("sigmoid")).Message);
            Assert.Throws<TauException>(() => RewardFormulas.Get(null));
        }

        [Test]
        public void FormulasOfAllComponentsTogetherHaveNoRewardPerComponent()
        {
            var both = RewardFormulas.Names.Where(name => !RewardFormulas.HasComponents(name)).ToList();
            Assert.Sequence(new[] { "binary_strict", "binary01" }, both);
            var one = new[] { 0.0f };
            foreach (var name in both)
            {
                var error = Assert.Throws<TauException>(() => RewardFormulas.Components(name, one, one, 0.1, 1));
                Assert.Equal(
                    "Reward formula `" + name + "` judges all components together, so it has no reward per component; "
                    + "set `credit: aggregate` or choose one of `binary`, `difference`, `incremental`.", error.Message);
            }
        }

        [Test]
        public void NeverPaysForBeingWrong()
        {
            foreach (var name in RewardFormulas.Names)
            {
                var formula = RewardFormulas.Get(name);
                var before = double.PositiveInfinity;
                for (var error = 0; error <= 16; error++)
                {
                    var earned = formula(new[] { 0.0f, 0.0f }, new[] { error / 8.0f, error / 8.0f }, 0.3, 2);
                    Assert.True(earned <= before, name + " pays " + earned + " after " + before);
                    before = earned;
                }
            }
        }

        [Test]
        public void AnErrorOfExactlyTheThresholdIsNotWithin()
        {
            Assert.Equal(-1.0, RewardFormulas.Binary(new[] { 0.25f }, new[] { 0.5f }, 0.25, 1));
            Assert.Equal(1.0, RewardFormulas.Binary(new[] { 0.2500001f }, new[] { 0.5f }, 0.25, 1));
            Assert.Equal(0.0, RewardFormulas.Binary01(new[] { 0.25f }, new[] { 0.5f }, 0.25, 1));
        }

        [Test]
        public void ComparedInDoublePrecision()
        {
            // In single precision 1 - 1e-9 is 1 and so not within 1; in double precision it is less.
            var output = new[] { 1e-9f };
            var target = new[] { 1.0f };
            Assert.Equal(1.0, RewardFormulas.Binary(output, target, 1.0, 1));
            Assert.Equal(1.0 - (2.0 * (1.0 - 1e-9f)), RewardFormulas.Incremental(output, target, 1.0, 1));
        }

        [Test]
        public void SenselessArgumentsAreRefused()
        {
            var one = new[] { 0.0f };
            foreach (var threshold in new[] { 0.0, -0.5, double.NaN })
            {
                Assert.Throws<TauException>(() => RewardFormulas.Binary(one, one, threshold, 1));
                Assert.Throws<TauException>(() => RewardFormulas.BinaryStrict(one, one, threshold, 1));
            }
            Assert.Equal(
                "Reward `threshold` is -0.5 but must be greater than 0.",
                Assert.Throws<TauException>(() => RewardFormulas.Binary01(one, one, -0.5, 1)).Message);
            Assert.Equal(
                "Reward `columns` is 2 but must lie between 1 and the 1 action components.",
                Assert.Throws<TauException>(() => RewardFormulas.Difference(one, one, 0.1, 2)).Message);
            Assert.Throws<TauException>(() => RewardFormulas.Incremental(one, one, 0.1, 0));
            Assert.Throws<ArgumentException>(() => RewardFormulas.Incremental(one, new float[2], 0.1, 1));
        }

        [Test]
        public void ProfilesAreThoseOfPython()
        {
            Assert.Sequence(new[] { "tau384 384 binary 0", "tau3 3 incremental 1" }, TauProfile.All.Select(
                profile => profile.Name + " " + profile.ActionSize + " " + profile.Reward + " " + profile.Index));
            Assert.True(ReferenceEquals(TauProfile.Get("tau3"), TauProfile.ByIndex(1.0f)));
            Assert.Equal(
                "There is no Tau profile `tau4`; choose one of `tau384`, `tau3`.",
                Assert.Throws<TauException>(() => TauProfile.Get("tau4")).Message);
            Assert.Equal(
                "Environment parameter `profile` is 7, which stands for no profile; use 0 (`tau384`), 1 (`tau3`).",
                Assert.Throws<TauException>(() => TauProfile.ByIndex(7.0f)).Message);
        }

        private static bool Judge(Dictionary<string, object> entry)
        {
            switch ((string)entry["predicate"])
            {
                case "positive":
                    return SuccessPredicates.Positive((double)entry["reward"]);
                case "threshold":
                    return SuccessPredicates.Threshold((double)entry["reward"], (double)entry["limit"]);
                case "outcome":
                    return SuccessPredicates.Outcome(
                        (bool)entry["done"], (double)entry["return"], (double)entry["limit"]);
                default:
                    return SuccessPredicates.Distance((double)entry["error"], (double)entry["limit"]);
            }
        }

        private static List<Dictionary<string, object>> Cases(string section)
        {
            return ((List<object>)TestData.Vectors[section]).Cast<Dictionary<string, object>>().ToList();
        }

        private static float[] Floats(Dictionary<string, object> entry, string name)
        {
            return ((List<object>)entry[name]).Select(value => (float)(double)value).ToArray();
        }

        private static int Columns(Dictionary<string, object> entry)
        {
            return (int)(double)entry["columns"];
        }
    }
}
