using System;
using System.IO;
using System.Linq;
using System.Text;

namespace Tau.Core.Tests
{
    /// <summary>Reading a data set, whole and damaged; known questions; held-out rows.</summary>
    public sealed class DataTests
    {
        private static readonly (string, string)[] Train =
        {
            ("What is three plus four?", "seven"),
            ("Is lantern spelled properly?", "yes"),
            ("Is it?", "yes"),
            ("Give the past tense of walk.", "walked"),
        };

        private static readonly (string, string)[] Held =
        {
            ("What is nine minus two?", "seven"),
            ("Ü?", "only here"),
        };

        private static byte[] Good => GameData.Bytes(Train, Held, "training_data row 2: odd", "and another");

        [Test]
        public void EverythingInTheFileIsThere()
        {
            var data = TauDataset.Read(Good, "set.tau");
            Assert.Equal("set.tau", data.Source);
            Assert.Sequence(new[] { "seven", "yes", "walked", "only here" }, data.Answers);
            Assert.Equal(3, data.TrainingAnswers);
            Assert.Sequence(Train.Select(row => row.Item1), data.Train.Questions);
            Assert.Sequence(new[] { 0, 1, 1, 2 }, data.Train.AnswerIndex);
            Assert.Sequence(Held.Select(row => row.Item1), data.Evaluation.Questions);
            Assert.Sequence(new[] { 0, 3 }, data.Evaluation.AnswerIndex);
            var tokens = data.Targets(TauProfile.Get("tau3"));
            Assert.Sequence(data.Answers.SelectMany(GameData.Token), tokens.SelectMany(token => token));
            Assert.Equal(
                "set.tau was made from a file with 2 invalid rows (the first: training_data row 2: odd), which are "
                + "omitted; run `tau-train data audit` to see all of them.",
                data.SkippedSentence());
            Assert.True(TauDataset.Read(GameData.Bytes(Train, Held), "x").SkippedSentence() == null, "none is skipped");
        }

        [Test]
        public void VectorsAreReadInHalfPrecisionAndHaveUnitLength()
        {
            var data = TauDataset.Read(Good, "x");
            foreach (var vector in data.Train.Prompts.Concat(data.Targets(TauProfile.Get("tau384"))))
            {
                Assert.Equal(384, vector.Length);
                Assert.Near(1.0, vector.Sum(value => (double)value * value), 1e-6);
                var sizes = vector.Select(Math.Abs).Distinct().OrderBy(size => size).ToList();
                Assert.Equal(2, sizes.Count);
                Assert.Near(2.0, sizes[1] / sizes[0], 1e-6, "twos and ones");
                Assert.True(vector.Any(value => value > 0) && vector.Any(value => value < 0), "signs");
            }
        }

        [Test]
        public void HalfPrecisionIsReadBitByBit()
        {
            var bytes = Good;
            var at = Position(bytes, "only here") + "only here".Length;
            var bits = new ushort[] { 0x3C01, 0x7BFF, 0x8400, 0x0001, 0xBC00 }; // 1 + 2^-10, 65504, -2^-14, 2^-24, -1
            var values = new[] { 1.0 + Math.Pow(2, -10), 65504.0, -Math.Pow(2, -14), Math.Pow(2, -24), -1.0 };
            Array.Clear(bytes, at, 768);
            Buffer.BlockCopy(bits, 0, bytes, at, 2 * bits.Length);
            var vector = TauDataset.Read(bytes, "x").Targets(TauProfile.Get("tau384"))[0];
            var length = Math.Sqrt(values.Sum(value => value * value));
            Assert.Sequence(values.Select(value => (float)(value / length)), vector.Take(values.Length));
        }

        [Test]
        public void TheProjectsOwnFileIsRead()
        {
            var data = TauDataset.Load(TestRunner.DataFile);
            Assert.Equal(1584, data.Train.Count);
            Assert.Equal(198, data.Evaluation.Count);
            foreach (var profile in new[] { TauProfile.Get("tau3"), TauProfile.Get("tau384") })
            {
                var targets = data.Targets(profile);
                var nearest = targets.Select(target => Decoding.Nearest(target, targets, targets.Length));
                Assert.Sequence(Enumerable.Range(0, data.Answers.Count), nearest, profile.Name);
            }
        }

        [Test]
        public void WhatIsCutShortOrTooLongIsRefused()
        {
            for (var length = 0; length < Good.Length; length += length < 200 ? 1 : 97)
            {
                var sentence = length < 8 ? "set.tau is not a Tau data file for Unity; make it again with `tau-train "
                    : "set.tau is damaged or cut short (";
                Assert.Refused(sentence, () => TauDataset.Read(Good.Take(length).ToArray(), "set.tau"));
            }
            Assert.Refused("set.tau is damaged", () => TauDataset.Read(Good.Append((byte)0).ToArray(), "set.tau"));
        }

        [Test]
        public void AnyDamagedByteIsRefusedOrLeavesASoundFile()
        {
            for (var at = 0; at < 400; at++)
            {
                foreach (var value in new byte[] { 0, 1, 0x7F, 0xFF })
                {
                    var bytes = Good;
                    bytes[at] = value;
                    try
                    {
                        var data = TauDataset.Read(bytes, "set.tau");
                        Assert.True(data.Train.AnswerIndex.All(index => index < data.Answers.Count), "byte " + at);
                    }
                    catch (TauException)
                    {
                        // one sentence
                    }
                }
            }
        }

        [Test]
        public void WhatIsOutOfRangeIsRefused()
        {
            var start = Position(Good, "\u0005seven") - 8; // counts of answers, all and in training
            Damaged(start, BitConverter.GetBytes(int.MaxValue));
            Damaged(start, BitConverter.GetBytes(-1));
            Damaged(start + 4, BitConverter.GetBytes(5));
            Damaged(start + 4, BitConverter.GetBytes(0));
            var vectors = Position(Good, "only here") + "only here".Length;
            Damaged(vectors, new byte[] { 0x00, 0x7C }); // infinite
            Damaged(vectors, new byte[768]); // no length at all
            Damaged(vectors + (4 * 768), BitConverter.GetBytes(float.NaN));
            var index = Position(Good, "walk.") + "walk.".Length;
            Damaged(index, BitConverter.GetBytes(4));
            Damaged(index, BitConverter.GetBytes(-1));
            Damaged(start + 9, new byte[] { 0xFF }); // no UTF-8
            var untrained = GameData.Bytes(Train.Take(0).ToList(), Held);
            Assert.Refused("set.tau is damaged", () => TauDataset.Read(untrained, "set.tau"));
            var newer = Good;
            newer[8] = 2;
            Assert.Refused(
                "set.tau has version 2, but this game reads only version 1; make it again",
                () => TauDataset.Read(newer, "set.tau"));
        }

        [Test]
        public void TheFileOfAJsonFileLiesBesideIt()
        {
            var folder = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());
            Directory.CreateDirectory(folder);
            try
            {
                var json = Path.Combine(folder, "my.set.json");
                var file = Path.Combine(folder, "my.set.tau");
                Assert.Refused(
                    $"Unity reads {file} instead of {json}, but it does not exist; make it with `tau-train data "
                    + $"export-unity {json} --output {file}`.",
                    () => TauDataset.Load(json));
                Assert.Refused($"The data file {file} cannot be read (", () => TauDataset.Load(file));
                Assert.Refused($"The data file {folder} cannot be read (", () => TauDataset.Load(folder));
                File.WriteAllBytes(file, Good);
                Assert.Equal(4, TauDataset.Load(json).Train.Count);
                Assert.Equal(file, TauDataset.Load(file).Source);
            }
            finally
            {
                Directory.Delete(folder, true);
            }
        }

        [Test]
        public void AKnownQuestionIsFoundHoweverItIsSpaced()
        {
            var data = TauDataset.Read(Good, "x");
            var match = new QuestionMatcher(data).Find("  what IS  three plus four? ");
            Assert.Equal("What is three plus four? seven", $"{match.Question} {match.Answer}");
            Assert.True(match.Exact && match.Score == 1.0, "exact");
            Assert.True(ReferenceEquals(data.Train.Prompts[0], match.Vector), "its vector");
            Assert.True(new QuestionMatcher(data).Find("What is nine minus two?").Exact, "held-out rows are known too");
        }

        [Test]
        public void AnythingElseIsTheClosestQuestionByItsTrigrams()
        {
            var matcher = new QuestionMatcher(TauDataset.Read(Good, "x"));
            var match = matcher.Find("is lanterns speled proper?");
            Assert.Equal("Is lantern spelled properly?", match.Question);
            Assert.True(!match.Exact && match.Score > 0.5 && match.Score < 1.0, "score " + match.Score);
            // " is it? " has 6 trigrams, " is?? " has 4, and they share " is": 1 / sqrt(6 * 4)
            Assert.Near(1.0 / Math.Sqrt(24.0), matcher.Find("is??").Score);
            Assert.Refused("No known question is similar to `zzzz`, and a game cannot", () => matcher.Find(" zzzz"));
            Assert.Refused("No known question is similar to ``", () => matcher.Find(" "));
        }

        [Test]
        public void EveryHeldOutRowIsShownOnce()
        {
            var task = GameData.Task();
            var evaluation = new HeldOutEvaluation(task);
            Assert.True(double.IsNaN(evaluation.Accuracy) && double.IsNaN(evaluation.MeanReward), "0/0");
            double reward = 0.0;
            var right = 0;
            for (var row = 0; row < 12; row++)
            {
                Assert.True(ReferenceEquals(task.Dataset.Evaluation.Prompts[row], evaluation.Next()), "row " + row);
                var answer = task.Dataset.Evaluation.AnswerIndex[row];
                var output = task.Targets[answer].Select(value => row % 2 == 0 ? value : value * 0.3f).ToArray();
                evaluation.Add(output);
                reward += task.Reward(output, answer);
                right += Decoding.Nearest(output, task.Targets, 10) == answer ? 1 : 0;
                Assert.Equal(row + 1, evaluation.Done);
            }
            Assert.True(evaluation.Next() == null, "there is no more");
            Assert.Throws<InvalidOperationException>(() => evaluation.Add(new float[3]));
            Assert.Near(reward / 12.0, evaluation.MeanReward);
            Assert.Near(right / 12.0, evaluation.Accuracy);
            Assert.True(right >= 6 && right < 12, "right " + right);
        }

        [Test]
        public void OutputsAreClippedDecodedAmongTrainingAnswersAndStandBesideBlindPolicies()
        {
            var task = new TauTask(TauDataset.Read(Good, "x"), TauProfile.Get("tau3"), new TauRules("binary01"));
            var evaluation = new HeldOutEvaluation(task);
            Assert.Refused("Got NaN as an action for held-out row 1", () =>
                evaluation.Add(new[] { 0f, float.NaN, 0f }));
            Assert.Refused("Got 2 actions for held-out row 1, but", () => evaluation.Add(new float[2]));
            Assert.Equal(0, evaluation.Done);
            evaluation.Add(task.Targets[0].Select(value => value == 1f ? 9f : value).ToArray());
            evaluation.Add(task.Targets[3]); // right, but of an answer that training does not have
            Assert.Sequence(
                new[]
                {
                    "held-out rows: 2 of 2, right 50.0 %, mean reward +1.000 (binary01)",
                    "without looking: right 0.0 % (most frequent answer), mean reward 0.000 (zeros)",
                },
                evaluation.ToText().Split('\n'));
            var nobody = TauDataset.Read(GameData.Bytes(Train, Held.Take(0).ToList()), "x");
            Assert.Refused("The data set x has no usable evaluation rows; add some", () =>
                new HeldOutEvaluation(new TauTask(nobody, TauProfile.Get("tau3"))));
        }

        private static void Damaged(int at, byte[] bytes)
        {
            var content = Good;
            bytes.CopyTo(content, at);
            Assert.Refused("set.tau is damaged or cut short (", () => TauDataset.Read(content, "set.tau"));
        }

        private static int Position(byte[] bytes, string text)
        {
            return Encoding.GetEncoding("iso-8859-1").GetString(bytes).IndexOf(text, StringComparison.Ordinal);
        }
    }
}
