using System.Collections.Generic;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>Windows of binary rewards against the shared vectors.</summary>
    public sealed class WindowTests
    {
        [Test]
        public void WindowsJudgeAsTheSharedVectorsSay()
        {
            var cases = ((List<object>)TestData.Vectors["windows"]).Cast<Dictionary<string, object>>().ToList();
            Assert.Equal(60, cases.Count);
            foreach (var entry in cases)
            {
                var window = new RewardWindow(
                    (string)entry["aggregate"], (int)(double)entry["window"], (string)entry["values"]);
                Follow(window, entry);
                window.Clear();
                Follow(window, entry); // a window that was emptied is like a new one
            }
        }

        [Test]
        public void TheOldestStepLeavesAFullWindow()
        {
            var window = new RewardWindow("sum", 2);
            Assert.Sequence(new[] { 1.0, 2.0, 1.0, 0.0, 0.0, 1.0 }, new[] { true, true, false, false, false, true }
                .Select(window.Push));
            Assert.Equal(2, window.Count);
        }

        [Test]
        public void DoesNotDriftOverALongRun()
        {
            var window = new RewardWindow("mean", 7, "pm1");
            var random = new AgentRandom(5, 0);
            var steps = Enumerable.Range(0, 100_000).Select(_ => random.NextUniform() < 0.3).ToList();
            foreach (var step in steps)
            {
                window.Push(step);
            }
            Assert.Equal(steps.Skip(steps.Count - 7).Average(step => step ? 1.0 : -1.0), window.Peek());
        }

        [Test]
        public void UnknownArgumentsAreRefused()
        {
            Assert.Equal(
                "Reward `aggregate` is `median`; choose one of `mean`, `sum`, `any`, `all`, `majority`.",
                Assert.Throws<TauException>(() => new RewardWindow("median")).Message);
            Assert.Equal(
                "Reward `window` is 0 but must be at least 1 step.",
                Assert.Throws<TauException>(() => new RewardWindow("mean", 0)).Message);
            Assert.Equal(
                "Reward `values` is `10`; choose `01` or `pm1`.",
                Assert.Throws<TauException>(() => new RewardWindow("mean", 1, "10")).Message);
        }

        private static void Follow(RewardWindow window, Dictionary<string, object> entry)
        {
            var name = entry["aggregate"] + " of " + entry["window"] + " " + entry["values"];
            Assert.Equal((double)entry["empty"], window.Peek(), 0.0, name + " empty");
            Assert.Equal(0, window.Count, name);
            var steps = (string)entry["steps"];
            var expected = (List<object>)entry["expected"];
            Assert.Equal(steps.Length, expected.Count, name);
            for (var index = 0; index < steps.Length; index++)
            {
                var judged = window.Push(steps[index] == '1');
                Assert.Equal((double)expected[index], judged, 1e-12, name + " step " + index);
                Assert.Equal(judged, window.Peek(), 0.0, name + " looked at twice");
            }
        }
    }
}
