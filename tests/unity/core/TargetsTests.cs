using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>Targets of answers, and the singular vectors behind them.</summary>
    public sealed class TargetsTests
    {
        [Test]
        public void TargetsOfThePackagedDataAreExactlyThoseOfPython()
        {
            var expected = (Dictionary<string, object>)TestData.Vectors["targets"];
            var profile = TauProfile.Get((string)expected["profile"]);
            CheckExact((List<object>)expected["values"], TauTargets.Of(TauDataset.Load(TestData.DataSetPath), profile));
        }

        [Test]
        public void TargetsOfTheMadeUpDataAreExactlyThoseOfPython()
        {
            var targets = TauTargets.Of(MadeUpData.Read(), TauProfile.Get("tau3"));
            CheckExact((List<object>)MadeUpData.Case["tau3"], targets);
        }

        [Test]
        public void WorkedOutOnceHoweverManyThreadsAsk()
        {
            var data = MadeUpData.Read();
            var profile = TauProfile.Get("tau3");
            var computed = 0;
            float[][] Compute()
            {
                Interlocked.Increment(ref computed);
                Thread.Sleep(50); // long enough for every other thread to ask meanwhile
                return new float[1][];
            }
            var all = Enumerable.Range(0, 8).Select(_ => Task.Factory.StartNew(
                () => data.SharedTargets(7, Compute), TaskCreationOptions.LongRunning)).ToArray();
            Task.WaitAll(all);
            Assert.Equal(1, computed);
            Assert.True(all.All(task => ReferenceEquals(task.Result, all[0].Result)), "one array for all");
            var targets = TauTargets.Of(data, profile);
            Assert.True(ReferenceEquals(targets, TauTargets.Of(data, profile)), "kept");
            Assert.True(!ReferenceEquals(targets, TauTargets.Of(MadeUpData.Read(), profile)), "by data set");
        }

        [Test]
        public void EmbeddingsAreTheTargetsOfTheWideProfile()
        {
            var data = MadeUpData.Read();
            Assert.True(ReferenceEquals(data.AnswerVectors, TauTargets.Of(data, TauProfile.Get("tau384"))));
        }

        [Test]
        public void FittedAnswersFillTheRangeAndOthersAreClippedToIt()
        {
            const int Fitted = 6;
            var vectors = Enumerable.Range(0, 60).Select(row => Row(row, 10)).ToArray();
            var targets = TokenProjection.Fit(vectors, Fitted, 3).Apply(vectors);
            for (var component = 0; component < 3; component++)
            {
                var values = targets.Select(target => target[component]).ToList();
                Assert.Equal(-1.0, values.Take(Fitted).Min(), 1e-6);
                Assert.Equal(1.0, values.Take(Fitted).Max(), 1e-6);
                Assert.True(values.All(value => Math.Abs(value) <= 1.0f), "nothing lies outside");
            }
            var clipped = targets.Skip(Fitted).Sum(target => target.Count(value => Math.Abs(value) == 1.0f));
            Assert.True(clipped > 5, "only " + clipped + " of the others are clipped");
        }

        [Test]
        public void SmallVocabulariesLeaveTheOtherComponentsAtZero()
        {
            foreach (var count in new[] { 1, 2, 3 })
            {
                var vectors = Enumerable.Range(0, count).Select(row => Row(row, 20)).ToArray();
                var targets = TokenProjection.Fit(vectors, count, 3).Apply(vectors);
                Assert.True(targets.All(target => target.Skip(count - 1).All(value => value == 0.0f)), "rank " + count);
                Assert.Equal(count, targets.Select(target => string.Join("|", target)).Distinct().Count());
            }
        }

        [Test]
        public void OfEquallyLargeLoadingsTheFirstIsPositive()
        {
            // Two answers: every column is -1 and +1 once it is standardised, so all loadings are equally large.
            for (var seed = 0; seed < 20; seed++)
            {
                var vectors = new[] { Row(seed, TauProfile.EmbeddingSize), Row(seed + 100, TauProfile.EmbeddingSize) };
                var targets = TokenProjection.Fit(vectors, 2, 3).Apply(vectors);
                var second = vectors[1][0] > vectors[0][0] ? 1 : 0;
                Assert.Sequence(new[] { 1.0f, 0.0f, 0.0f }, targets[second], "seed " + seed);
                Assert.Sequence(new[] { -1.0f, 0.0f, 0.0f }, targets[1 - second], "seed " + seed);
            }
            var rounded = PrincipalAxes.Of(new[] { new[] { -1.0, 1.0 + 1e-12 } }, 1);
            Assert.True(rounded[0][0] > 0.0, "equal but for rounding");
            var larger = PrincipalAxes.Of(new[] { new[] { -1.0, 1.0 + 1e-6 } }, 1);
            Assert.True(larger[0][1] > 0.0, "really larger");
        }

        [Test]
        public void AConstantColumnDoesNoHarm()
        {
            var vectors = Enumerable.Range(0, 10).Select(row => Row(row, 20)).ToArray();
            Array.ForEach(vectors, row => row[5] = 1.25f);
            var targets = TokenProjection.Fit(vectors, vectors.Length, 3).Apply(vectors);
            Assert.True(targets.All(target => target.All(value => Math.Abs(value) <= 1.0f)), "finite and in range");
        }

        [Test]
        public void AxesAreOrthonormalEigenvectorsOfTheGramMatrix()
        {
            foreach (var (rows, width) in new[] { (40, 7), (7, 40), (12, 12), (300, 20), (2, 5), (5, 1) })
            {
                var matrix = Matrix(rows, width, 1.0);
                var axes = PrincipalAxes.Of(matrix, 3);
                var rank = Math.Min(3, Math.Min(rows, width));
                var before = double.PositiveInfinity;
                for (var first = 0; first < rank; first++)
                {
                    var image = Gram(matrix, axes[first]);
                    var value = Dot(image, axes[first]);
                    Assert.True(value <= before, "largest first");
                    before = value;
                    var rest = image.Select((entry, index) => entry - (value * axes[first][index])).ToArray();
                    Assert.Equal(0.0, Math.Sqrt(Dot(rest, rest)) / value, 1e-11, rows + " x " + width);
                    for (var second = 0; second < 3; second++)
                    {
                        Assert.Equal(first == second ? 1.0 : 0.0, Dot(axes[first], axes[second]), 1e-12);
                    }
                    Assert.True(axes[first].Max() >= -axes[first].Min(), "largest loading positive");
                }
                Assert.True(axes.Skip(rank).All(axis => axis.All(entry => entry.Equals(0.0))), "zero beyond the rank");
            }
        }

        [Test]
        public void RankIsJudgedBySingularValuesAndNotByTheirSquares()
        {
            // Singular values 1, 1e-6, 1e-8 and then 1e-11: the third is real, although its square drowns in rounding.
            var matrix = new[] { 1.0, 1e-6, 1e-8, 1e-11 }
                .Select((size, row) => Enumerable.Range(0, 6).Select(column => row == column ? size : 0.0).ToArray())
                .ToArray();
            var axes = PrincipalAxes.Of(matrix, 4);
            for (var row = 0; row < 3; row++)
            {
                Assert.Equal(1.0, axes[row][row], 1e-9);
            }
            Assert.True(axes[3].All(entry => entry.Equals(0.0)), "beyond 1e-9 of the largest there is nothing");
        }

        [Test]
        public void EqualSingularValuesGiveOrthonormalAxes()
        {
            var identity = Enumerable.Range(0, 5)
                .Select(row => Enumerable.Range(0, 8).Select(column => row == column ? 2.0 : 0.0).ToArray()).ToArray();
            var axes = PrincipalAxes.Of(identity, 3);
            for (var first = 0; first < 3; first++)
            {
                for (var second = 0; second < 3; second++)
                {
                    Assert.Equal(first == second ? 1.0 : 0.0, Dot(axes[first], axes[second]), 1e-12);
                }
            }
        }

        [Test]
        public void AMatrixOfZerosHasNoAxes()
        {
            var axes = PrincipalAxes.Of(new[] { new double[4], new double[4] }, 3);
            Assert.True(axes.All(axis => axis.Length == 4 && axis.All(entry => entry.Equals(0.0))));
        }

        [Test]
        public void LargeVocabulariesTakeWellBelowASecond()
        {
            PrincipalAxes.Of(Matrix(20, TauProfile.EmbeddingSize, 1.0), 3);
            var clock = Stopwatch.StartNew();
            PrincipalAxes.Of(Matrix(300, TauProfile.EmbeddingSize, 1.0), 3);
            Assert.True(clock.Elapsed.TotalSeconds < 5.0, "300 answers took " + clock.Elapsed.TotalSeconds + " s");
        }

        private static void CheckExact(List<object> expected, float[][] targets)
        {
            Assert.Equal(expected.Count, targets.Length);
            for (var row = 0; row < targets.Length; row++)
            {
                var values = ((List<object>)expected[row]).Select(value => (float)(double)value);
                Assert.Sequence(values, targets[row], "row " + row);
            }
        }

        private static float[] Row(int number, int width)
        {
            var random = new AgentRandom(3, number);
            return Enumerable.Range(0, width).Select(_ => (float)(random.NextUniform() - 0.5)).ToArray();
        }

        private static double[][] Matrix(int rows, int width, double size)
        {
            return Enumerable.Range(0, rows)
                .Select(row => Row(row, width).Select(value => size * value).ToArray()).ToArray();
        }

        private static double[] Gram(double[][] matrix, double[] vector)
        {
            var result = new double[vector.Length];
            foreach (var row in matrix)
            {
                var product = Dot(row, vector);
                for (var column = 0; column < result.Length; column++)
                {
                    result[column] += product * row[column];
                }
            }
            return result;
        }

        private static double Dot(double[] left, double[] right)
        {
            return left.Zip(right, (a, b) => a * b).Sum();
        }
    }
}
