using System.Collections.Generic;

namespace Tau.Core.Tests
{
    /// <summary>Rules of the game, by environment parameters.</summary>
    public sealed class RulesTests
    {
        private static readonly TauProfile Tau3 = TauProfile.Get("tau3");

        [Test]
        public void DefaultsAreTheHeadlessScenes()
        {
            var rules = new TauRules();
            Assert.True(rules.Reward == null, "reward");
            Assert.Equal(0, rules.Columns);
            Assert.Equal(0.1, rules.Threshold);
            Assert.Equal(2500, rules.MaxDecisions);
            Assert.Equal(-100.0, rules.RewardThreshold);
            Assert.True(!rules.FaithfulTerminal, "terminal");
            Assert.Equal("train", rules.Split);
        }

        [Test]
        public void ParametersThatAreSetReplaceRulesAndOthersStay()
        {
            var rules = Updated(
                new TauRules("difference", 2, 0.5, 7, -3.0, true, "evaluation"), ("max_decisions", 12.9f));
            Assert.Equal("difference", rules.Reward);
            Assert.Equal(2, rules.Columns);
            Assert.Equal(0.5, rules.Threshold);
            Assert.Equal(12, rules.MaxDecisions);
            Assert.Equal(-3.0, rules.RewardThreshold);
            Assert.True(rules.FaithfulTerminal, "terminal");
            Assert.Equal("evaluation", rules.Split);
            var others = Updated(
                rules, ("reward_type", 4f), ("columns", 3f), ("threshold", 0.1f), ("reward_threshold", -7f),
                ("faithful_terminal", 0f), ("split", 0f));
            Assert.Equal("binary01", others.Reward);
            Assert.Equal(3, others.Columns);
            Assert.Equal((double)0.1f, others.Threshold);
            Assert.Equal(-7.0, others.RewardThreshold);
            Assert.True(!others.FaithfulTerminal, "terminal");
            Assert.Equal("train", others.Split);
        }

        [Test]
        public void SenselessParametersAreToldInOneSentence()
        {
            Refused("Environment parameter `split` is 2; use 0 (train) or 1 (evaluation).", ("split", 2f));
            Refused("Environment parameter `columns` is 0; give 1 or more.", ("columns", 0f));
            Refused("Environment parameter `threshold` is nan; give a finite number.", ("threshold", float.NaN));
            Refused(
                "Environment parameter `reward_type` is 9, which stands for no formula; use 0 (`binary`), "
                + "1 (`difference`), 2 (`incremental`), 3 (`binary_strict`), 4 (`binary01`).",
                ("reward_type", 9f));
        }

        [Test]
        public void HugeNumbersAreLimitsAndNotOverflow()
        {
            Assert.Equal(int.MaxValue, Updated(new TauRules(), ("max_decisions", 1e30f)).MaxDecisions);
            Assert.Equal(int.MaxValue, Updated(new TauRules(), ("columns", 1e30f)).Columns);
            Assert.Equal(int.MinValue, Updated(new TauRules(), ("max_decisions", -1e30f)).MaxDecisions);
        }

        [Test]
        public void RulesAreCheckedAgainstTheProfile()
        {
            new TauRules(columns: 3).Check(Tau3);
            Unfit("`columns` is 4, but profile `tau3` has the columns 1 to 3.", new TauRules(columns: 4));
            Unfit("`threshold` is 0; give a number greater than 0.", new TauRules(threshold: 0.0));
            Unfit("`threshold` is nan; give a number greater than 0.", new TauRules(threshold: double.NaN));
            Unfit("`max_decisions` is -1; give 0 (no limit) or more.", new TauRules(maxDecisions: -1));
            Unfit("`split` is `test`; give `train` or `evaluation`.", new TauRules(split: "test"));
            Assert.Contains("`sigmoid`", Assert.Throws<TauException>(
                () => new TauRules("sigmoid").Check(Tau3)).Message);
        }

        private static TauRules Updated(TauRules rules, params (string Name, float Value)[] parameters)
        {
            var values = new Dictionary<string, float>();
            foreach (var (name, value) in parameters)
            {
                values[name] = value;
            }
            return rules.Updated(name => values.TryGetValue(name, out var value) ? value : (float?)null);
        }

        private static void Refused(string sentence, (string Name, float Value) parameter)
        {
            Assert.Equal(sentence, Assert.Throws<TauException>(() => Updated(new TauRules(), parameter)).Message);
        }

        private static void Unfit(string sentence, TauRules rules)
        {
            Assert.Equal(sentence, Assert.Throws<TauException>(() => rules.Check(Tau3)).Message);
        }
    }
}
