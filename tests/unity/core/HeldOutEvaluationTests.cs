using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>Every held-out row once, beside what blind policies get.</summary>
    public sealed class HeldOutEvaluationTests
    {
        [Test]
        public void EveryRowIsShownOnceInOrder()
        {
            var task = GameData.Task();
            var evaluation = new HeldOutEvaluation(task);
            var prompts = new List<float[]>();
            while (evaluation.Next(out var prompt, out var target))
            {
                var answer = task.Dataset.Evaluation.AnswerIndex[prompts.Count];
                Assert.True(ReferenceEquals(task.Targets[answer], target), "target " + prompts.Count);
                prompts.Add(prompt);
                evaluation.Add(target);
                Assert.Equal(prompts.Count, evaluation.Done);
            }
            Assert.Equal(12, evaluation.Total);
            Assert.True(prompts.SequenceEqual(task.Dataset.Evaluation.Prompts), "prompts");
            Assert.Equal(1.0, evaluation.Accuracy, 0.0);
            Assert.Equal(1.0, evaluation.MeanReward, 0.0);
            Assert.True(!evaluation.Next(out _, out _), "there is no more");
        }

        [Test]
        public void RewardAndAccuracyAreDifferentThings()
        {
            var task = GameData.Task();
            var evaluation = new HeldOutEvaluation(task);
            var reward = 0.0;
            var right = 0;
            foreach (var answer in task.Dataset.Evaluation.AnswerIndex)
            {
                evaluation.Next(out _, out var target);
                var output = target.Select(value => value * 0.5f).ToArray();
                reward += task.Reward(output, answer);
                right += Decoding.Nearest(output, task.Targets) == answer ? 1 : 0;
                evaluation.Add(output);
            }
            Assert.Equal(reward / 12.0, evaluation.MeanReward, 1e-12);
            Assert.Equal(right / 12.0, evaluation.Accuracy, 1e-12);
        }

        [Test]
        public void AnswersAreDecodedAmongThoseOfTraining()
        {
            var held = new[] { ("held", "only here"), ("again", "answer 1") };
            var dataset = GameData.Read(GameData.Numbered("train", 10), held, GameData.Scattered);
            var evaluation = new HeldOutEvaluation(new TauTask(dataset, TauProfile.Get("tau384")));
            while (evaluation.Next(out _, out var target))
            {
                evaluation.Add(target);
            }
            Assert.Equal(0.5, evaluation.Accuracy, 0.0);
            Assert.Equal(1.0, evaluation.MeanReward, 0.0);
        }

        [Test]
        public void BlindPoliciesStandBeside()
        {
            var rows = new[] { ("a", "yes"), ("b", "yes"), ("c", "no"), ("d", "other") };
            var held = new[] { ("e", "yes"), ("f", "no"), ("g", "yes"), ("h", "other") };
            var task = new TauTask(GameData.Read(rows, held, GameData.Scattered), TauProfile.Get("tau3"));
            var evaluation = new HeldOutEvaluation(task);
            Assert.Equal(0.5, evaluation.MajorityAccuracy, 0.0);
            var zeros = task.Dataset.Evaluation.AnswerIndex.Average(answer => task.Reward(new float[3], answer));
            Assert.Equal(zeros, evaluation.ZerosReward, 1e-12);
        }

        [Test]
        public void OutputsAreClippedAndMustBeFinite()
        {
            var task = GameData.Task();
            var evaluation = new HeldOutEvaluation(task);
            evaluation.Next(out _, out _);
            var error = Assert.Throws<TauException>(() => evaluation.Add(new[] { 0f, float.NaN, 0f }));
            Assert.Equal(
                "The policy's action for evaluation row 1 is not finite; the policy cannot be evaluated.",
                error.Message);
            Assert.Equal(0, evaluation.Done);
            evaluation.Add(new[] { 9f, -9f, 0f });
            var clipped = task.Reward(new[] { 1f, -1f, 0f }, task.Dataset.Evaluation.AnswerIndex[0]);
            Assert.Equal(clipped, evaluation.MeanReward, 0.0);
        }

        [Test]
        public void RowsAndAnswersAlternate()
        {
            var evaluation = new HeldOutEvaluation(GameData.Task());
            Assert.True(double.IsNaN(evaluation.Accuracy) && double.IsNaN(evaluation.MeanReward), "0/0");
            Assert.Throws<InvalidOperationException>(() => evaluation.Add(new float[3]));
            evaluation.Next(out _, out _);
            Assert.Throws<InvalidOperationException>(() => { evaluation.Next(out _, out _); });
            Assert.Throws<TauException>(() => evaluation.Add(new float[2]));
            evaluation.Add(new float[3]);
            Assert.Throws<InvalidOperationException>(() => evaluation.Add(new float[3]));
        }

        [Test]
        public void ADataSetWithoutHeldOutRowsIsRefused()
        {
            var rows = GameData.Numbered("train", 10);
            var task = new TauTask(GameData.Read(rows, rows.Take(0), GameData.Scattered), TauProfile.Get("tau3"));
            Assert.Equal(
                "The data set game.json has no usable evaluation rows; add some to evaluate a policy.",
                Assert.Throws<TauException>(() => new HeldOutEvaluation(task)).Message);
        }

        [Test]
        public void TheTextSaysWhatWasReachedAndWhatBlindPoliciesReach()
        {
            var rows = new[] { ("a", "yes"), ("b", "yes"), ("c", "no") };
            var task = new TauTask(
                GameData.Read(rows, new[] { ("e", "yes"), ("f", "no") }, GameData.Scattered),
                TauProfile.Get("tau3"),
                new TauRules("binary01"));
            var evaluation = new HeldOutEvaluation(task);
            evaluation.Next(out _, out var target);
            evaluation.Add(target);
            Assert.Sequence(
                new[]
                {
                    "held-out rows: 1 of 2, right 100.0 %, mean reward +1.000 (binary01)",
                    "without looking: right 50.0 % (most frequent answer), mean reward 0.000 (zeros)",
                },
                evaluation.ToText().Split('\n'));
        }
    }
}
