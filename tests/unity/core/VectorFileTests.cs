using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace Tau.Core.Tests
{
    /// <summary>The archive of embeddings: types of numbers, and every way in which it can be damaged.</summary>
    public sealed class VectorFileTests
    {
        private const string Head = "The vector file folder/made-up.vectors.npz ";
        private const string Tail = "; make it anew with `tau-train data embed`.";

        [Test]
        public void AllPrecisionsGiveTheSameVectors()
        {
            var half = MadeUpData.Read("<f2");
            foreach (var type in new[] { "<f4", "<f8" })
            {
                var other = MadeUpData.Read(type);
                for (var row = 0; row < half.Train.Count; row++)
                {
                    Assert.Sequence(half.Train.Prompts[row], other.Train.Prompts[row], type);
                }
            }
        }

        [Test]
        public void RowsAreScaledInDoublePrecision()
        {
            var data = MadeUpData.Read();
            var vectors = (Dictionary<string, object>)MadeUpData.Case["vectors"];
            var row = ((List<object>)vectors["lemon?"]).Cast<double>().ToArray();
            var length = Math.Sqrt(row.Sum(value => value * value)); // whole numbers: exact in any order
            Assert.True(data.TryGetVector("Lemon?", out var vector));
            Assert.Sequence(row.Select(value => (float)(value / length)), vector);
        }

        [Test]
        public void HalfPrecisionOfEveryKind()
        {
            Assert.Equal(0.0, NpyArray.Half(0x0000));
            Assert.Equal(1.0, NpyArray.Half(0x3C00));
            Assert.Equal(-2.0, NpyArray.Half(0xC000));
            Assert.Equal(65504.0, NpyArray.Half(0x7BFF));
            Assert.Equal(0.333251953125, NpyArray.Half(0x3555));
            Assert.Equal(Math.Pow(2.0, -24), NpyArray.Half(0x0001));
            Assert.Equal(Math.Pow(2.0, -14), NpyArray.Half(0x0400));
            Assert.Equal(-1023.0 * Math.Pow(2.0, -24), NpyArray.Half(0x83FF));
            Assert.Equal(double.PositiveInfinity, NpyArray.Half(0x7C00));
            Assert.Equal(double.NegativeInfinity, NpyArray.Half(0xFC00));
            Assert.Equal(double.NaN, NpyArray.Half(0x7E01));
        }

        [Test]
        public void HeadersOfVersionTwoAreRead()
        {
            var array = NpyArray.Parse("x", MadeUpData.Npy("<f4", "1, 2", Floats(0.5f, -3.0f), 2));
            Assert.Sequence(new[] { 1, 2 }, array.Shape);
            Assert.Sequence(new[] { 0.5, -3.0 }, array.Row(0));
            Assert.Equal("float32 [1, 2]", array.Description);
        }

        [Test]
        public void DamagedArchivesAreRefusedWithTheRemedy()
        {
            var whole = MadeUpData.Archive();
            var flipped = (byte[])whole.Clone();
            flipped[2000] ^= 0x10;
            var texts = MadeUpData.Npy("|u1", "2,", Encoding.UTF8.GetBytes("[]"));
            var name = MadeUpData.Npy("|u1", "1,", new byte[] { 65 });
            var cases = new Dictionary<string, byte[]>
            {
                ["empty file"] = new byte[0],
                ["no zip file"] = Encoding.UTF8.GetBytes("these are no vectors"),
                ["cut off"] = whole.Take(whole.Length / 2).ToArray(),
                ["one bit wrong"] = flipped,
                ["no vectors"] = MadeUpData.Zip(("texts", texts), ("encoder", name)),
                ["no array"] = MadeUpData.Zip(("encoder", Encoding.UTF8.GetBytes("plain text")), ("texts", texts)),
                ["big-endian"] = Made("[]", "['>f4', 0]", MadeUpData.Npy(">f4", "0, 384", new byte[0])),
                ["pickled"] = Made("[]", "objects", MadeUpData.Npy("|O", "0,", new byte[0])),
                ["ends too early"] = Made("[\"a\"]", "short", MadeUpData.Npy("<f4", "1, 384", new byte[100])),
                ["huge shape"] = Made("[]", "huge", MadeUpData.Npy("<f8", "2000000000, 2000000000", new byte[8])),
                ["texts are no JSON"] = Made("[\"a\"", "x", MadeUpData.Npy("<f4", "0, 384", new byte[0])),
                ["texts are no list"] = Made("{}", "x", MadeUpData.Npy("<f4", "0, 384", new byte[0])),
            };
            foreach (var entry in cases)
            {
                var message = Refusal(entry.Value);
                var named = message.StartsWith(Head + "cannot be read (", StringComparison.Ordinal);
                var helpful = message.EndsWith(")" + Tail, StringComparison.Ordinal);
                Assert.True(named && helpful, entry.Key + ": " + message);
            }
        }

        [Test]
        public void AnotherShapeOrTypeIsNamed()
        {
            Assert.Equal(
                Head + "holds float32 [1, 3] for 1 texts but must hold [1, 384] floats" + Tail,
                Refusal(Made("[\"a\"]", "x", MadeUpData.Npy("<f4", "1, 3", Floats(1.0f, 2.0f, 3.0f)))));
            Assert.Equal(
                Head + "holds uint8 [384] for 2 texts but must hold [2, 384] floats" + Tail,
                Refusal(Made("[\"a\", \"b\"]", "x", MadeUpData.Npy("|u1", "384,", new byte[384]))));
        }

        [Test]
        public void NumbersThatAreNotFiniteAndTextsThatAreNoneAreRefused()
        {
            const string Sentence = Head + "holds values that are not finite numbers or texts" + Tail;
            var numbers = new float[384];
            numbers[7] = float.NaN;
            Assert.Equal(Sentence, Refusal(Made("[\"a\"]", "x", MadeUpData.Npy("<f4", "1, 384", Floats(numbers)))));
            numbers[7] = 1.0f;
            Assert.Equal(Sentence, Refusal(Made("[5]", "x", MadeUpData.Npy("<f4", "1, 384", Floats(numbers)))));
        }

        [Test]
        public void AnUnreadableVectorFileIsADamagedOne()
        {
            MadeUpData.InFolder(folder =>
            {
                var path = MadeUpData.Write(folder);
                File.Delete(Path.Combine(folder, "made-up.vectors.npz"));
                Directory.CreateDirectory(Path.Combine(folder, "made-up.vectors.npz"));
                Assert.Contains(
                    "made-up.vectors.npz cannot be read (",
                    Assert.Throws<TauException>(() => TauDataset.Load(path)).Message);
            });
        }

        [Test]
        public void VectorsLieBesideTheDataFile()
        {
            Assert.Equal("a/b/set.vectors.npz", TauDatasetFiles.VectorsPath("a/b/set.json"));
            Assert.Equal("set.v2.vectors.npz", TauDatasetFiles.VectorsPath("set.v2.json"));
            Assert.Equal("C:\\data.d\\set.vectors.npz", TauDatasetFiles.VectorsPath("C:\\data.d\\set"));
            Assert.Equal("a/.json.vectors.npz", TauDatasetFiles.VectorsPath("a/.json"));
        }

        [Test]
        public void CheckSumsAreThoseOfTheStandard()
        {
            Assert.Equal(0xCBF43926u, Crc32.Of(Encoding.ASCII.GetBytes("123456789"), 9));
            Assert.Equal(0u, Crc32.Of(new byte[4], 0));
        }

        private static byte[] Made(string texts, string encoder, byte[] vectors)
        {
            return MadeUpData.Zip(
                ("encoder", MadeUpData.Npy("|u1", encoder.Length + ",", Encoding.UTF8.GetBytes(encoder))),
                ("texts", MadeUpData.Npy("|u1", texts.Length + ",", Encoding.UTF8.GetBytes(texts))),
                ("vectors", vectors));
        }

        private static string Refusal(byte[] archive)
        {
            var json = (string)MadeUpData.Case["json"];
            return Assert.Throws<TauException>(() => MadeUpData.ReadFrom(json, archive, "folder/made-up.json")).Message;
        }

        private static byte[] Floats(params float[] numbers)
        {
            return numbers.SelectMany(BitConverter.GetBytes).ToArray();
        }
    }
}
