using System;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>Which known question stands in for a typed one.</summary>
    public sealed class QuestionMatcherTests
    {
        private static readonly (string Prompt, string Answer)[] Train =
        {
            ("What is three plus four?", "seven"),
            ("Is lantern spelled properly?", "yes"),
            ("Give the past tense of walk.", "walked"),
        };

        private static readonly (string Prompt, string Answer)[] Held =
        {
            ("What is nine minus two?", "seven"),
        };

        [Test]
        public void AKnownQuestionIsFoundExactlyHoweverItIsSpaced()
        {
            var match = Matcher().Find("  what IS  three plus four? ");
            Assert.Equal("What is three plus four?", match.Question);
            Assert.Equal("seven", match.Answer);
            Assert.True(match.Exact, "exact");
            Assert.Equal(1.0, match.Score, 0.0);
            Assert.Sequence(Unit("What is three plus four?"), match.Vector);
        }

        [Test]
        public void HeldOutQuestionsAreKnownToo()
        {
            Assert.True(Matcher().Find("What is nine minus two?").Exact, "exact");
        }

        [Test]
        public void AnythingElseIsTheClosestQuestionAndSaysSo()
        {
            var match = Matcher().Find("is lanterns speled proper?");
            Assert.Equal("Is lantern spelled properly?", match.Question);
            Assert.True(!match.Exact && match.Score > 0.5 && match.Score < 1.0, "score " + match.Score);
            Assert.Sequence(Unit("Is lantern spelled properly?"), match.Vector);
            var farther = Matcher().Find("lantern");
            Assert.Equal("Is lantern spelled properly?", farther.Question);
            Assert.True(farther.Score < match.Score, "a fragment is not closer");
        }

        [Test]
        public void TheScoreIsTheCosineOfTrigrams()
        {
            var match = Matcher().Find("walk.");
            var known = Trigrams(" give the past tense of walk. ");
            var asked = Trigrams(" walk. ");
            var product = asked.Sum(trigram => known.Count(other => other == trigram));
            var length = Math.Sqrt(known.GroupBy(x => x).Sum(group => group.Count() * group.Count()));
            Assert.Equal(product / (length * Math.Sqrt(asked.Length)), match.Score, 1e-12);
        }

        [Test]
        public void AnyTextWithAnEmbeddingIsExact()
        {
            var match = Matcher().Find("Walked");
            Assert.True(match.Exact && match.Answer == null, "it is no question of a row");
            Assert.Sequence(Unit("walked"), match.Vector);
        }

        [Test]
        public void WhatIsLikeNothingIsRefusedWithAnExample()
        {
            var error = Assert.Throws<TauException>(() => Matcher().Find("zzzz"));
            Assert.Contains("No known question is like `zzzz`", error.Message);
            Assert.Contains("`What is three plus four?`", error.Message);
            Assert.Throws<TauException>(() => Matcher().Find("  "));
        }

        private static QuestionMatcher Matcher()
        {
            return new QuestionMatcher(GameData.Read(Train, Held, GameData.Scattered));
        }

        private static float[] Unit(string text)
        {
            var dataset = GameData.Read(Train, Held, GameData.Scattered);
            Assert.True(dataset.TryGetVector(text, out var vector), "no vector");
            return vector;
        }

        private static string[] Trigrams(string text)
        {
            return Enumerable.Range(0, text.Length - 2).Select(start => text.Substring(start, 3)).ToArray();
        }
    }
}
