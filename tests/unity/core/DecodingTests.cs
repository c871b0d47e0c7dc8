using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core.Tests
{
    /// <summary>From outputs back to answers.</summary>
    public sealed class DecodingTests
    {
        [Test]
        public void TheNearestTargetAndOfTiesTheFirst()
        {
            foreach (Dictionary<string, object> entry in (List<object>)TestData.Vectors["nearest"])
            {
                var targets = ((List<object>)entry["targets"]).Select(Floats).ToArray();
                Assert.Equal((double)entry["index"], Decoding.Nearest(Floats(entry["output"]), targets), 0.0);
            }
        }

        [Test]
        public void EveryTargetIsNearestToItself()
        {
            var data = TauDataset.Load(TestData.DataSetPath);
            foreach (var profile in TauProfile.All)
            {
                var targets = TauTargets.Of(data, profile);
                for (var index = 0; index < targets.Length; index++)
                {
                    Assert.Equal(index, Decoding.Nearest(targets[index], targets), profile.Name);
                }
            }
        }

        [Test]
        public void OutputsThatAreNotFiniteAreNoAnswer()
        {
            var targets = new[] { new[] { 0.0f, 1.0f } };
            foreach (var value in new[] { float.NaN, float.PositiveInfinity, float.NegativeInfinity })
            {
                var error = Assert.Throws<TauException>(() => Decoding.Nearest(new[] { 0.0f, value }, targets));
                Assert.Contains("is not finite", error.Message);
            }
        }

        [Test]
        public void WidthsMustAgree()
        {
            Assert.Throws<ArgumentException>(() => Decoding.Nearest(new float[3], new[] { new float[2] }));
            Assert.Throws<ArgumentException>(() => Decoding.Nearest(new float[3], new float[0][]));
        }

        private static float[] Floats(object numbers)
        {
            return ((List<object>)numbers).Select(value => (float)(double)value).ToArray();
        }
    }
}
