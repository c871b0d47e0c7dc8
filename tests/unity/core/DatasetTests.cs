using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>The data set: what is kept, what is skipped, and what is shared.</summary>
    public sealed class DatasetTests
    {
        [Test]
        public void PackagedDataIsThatOfPython()
        {
            var expected = (Dictionary<string, object>)TestData.Vectors["targets"];
            var data = TauDataset.Load(TestData.DataSetPath);
            Assert.Sequence(((List<object>)expected["answers"]).Cast<string>(), data.Answers);
            Assert.Equal((double)expected["train"], data.Train.Count, 0.0);
            Assert.Equal((double)expected["evaluation"], data.Evaluation.Count, 0.0);
            Assert.Equal(data.Answers.Count, data.TrainingAnswers);
            Assert.Equal(0, data.Skipped.Count);
            Assert.True(data.SkippedSentence() == null, "nothing was skipped");
            Assert.Equal("all-MiniLM-L6-v2", data.Encoder);
            Assert.Equal(TestData.DataSetPath, data.Source);
        }

        [Test]
        public void EveryEmbeddingHasUnitLength()
        {
            var data = TauDataset.Load(TestData.DataSetPath);
            var vectors = data.Train.Prompts.Concat(data.Evaluation.Prompts).Concat(data.AnswerVectors).ToList();
            Assert.Equal(data.Train.Count + data.Evaluation.Count + data.Answers.Count, vectors.Count);
            foreach (var vector in vectors)
            {
                Assert.Equal(TauProfile.EmbeddingSize, vector.Length);
                Assert.Equal(1.0, vector.Sum(value => (double)value * value), 1e-6);
            }
        }

        [Test]
        public void MadeUpDataComesOutAsWrittenDown()
        {
            var data = MadeUpData.Read();
            var expected = MadeUpData.Case;
            Assert.Equal((string)expected["encoder"], data.Encoder);
            Assert.Sequence(((List<object>)expected["answers"]).Cast<string>(), data.Answers);
            Assert.Equal((double)expected["training_answers"], data.TrainingAnswers, 0.0);
            CheckRows((List<object>)expected["train"], data.Train, data);
            CheckRows((List<object>)expected["evaluation"], data.Evaluation, data);
        }

        [Test]
        public void SkippedRowsAreListedWithNumberAndReason()
        {
            var data = MadeUpData.Read();
            var expected = ((List<object>)MadeUpData.Case["skipped"]).Cast<Dictionary<string, object>>()
                .Select(row => row["section"] + " row " + row["row"] + " " + row["kind"] + ": " + row["reason"]);
            Assert.Sequence(expected, data.Skipped.Select(
                problem => problem.Section + " row " + problem.Row + " " + problem.Kind + ": " + problem.Reason));
            var sentence = (string)MadeUpData.Case["sentence"];
            Assert.Equal(sentence.Replace("{source}", "made-up.json"), data.SkippedSentence());
            Assert.Equal("training_data row 7: is not an object", data.Skipped[3].ToString());
        }

        [Test]
        public void ARowWithoutEmbeddingIsSkippedAndCountedAndTheOthersStay()
        {
            var data = MadeUpData.Read();
            var missing = data.Skipped.Where(problem => problem.Kind == "missing").ToList();
            Assert.Sequence(new[] { 11, 12, 13, 5 }, missing.Select(problem => problem.Row));
            Assert.True(!data.TryGetVector("Who?", out var none) && none == null, "Who? has no embedding");
            Assert.True(!data.TryGetVector("nothing", out _), "a vector of length zero is no embedding");
            Assert.True(!data.Train.PromptText.Contains("Who?"), "the row is left out");
            Assert.Equal(9, data.Train.Count);
        }

        [Test]
        public void FilesThatAreNoUsableDataSetAreRefusedAsByPython()
        {
            var archive = MadeUpData.Archive();
            foreach (Dictionary<string, object> entry in (List<object>)MadeUpData.Case["errors"])
            {
                var text = (string)entry["json"];
                var error = Assert.Throws<TauException>(() => MadeUpData.ReadFrom(text, archive, "x.json"));
                Assert.Equal(((string)entry["error"]).Replace("{source}", "x.json"), error.Message);
            }
        }

        [Test]
        public void WithoutVectorsEveryRowIsMissing()
        {
            var error = Assert.Throws<TauException>(() => MadeUpData.ReadFrom((string)MadeUpData.Case["json"], null));
            Assert.Contains("have no embedding; run `tau-train data embed made-up.json`", error.Message);
        }

        [Test]
        public void ATextThatIsNoUtf8IsRefused()
        {
            var error = Assert.Throws<TauException>(
                () => TauDataset.Read(new MemoryStream(new byte[] { 0x22, 0xFF, 0x22 }), null, "x.json"));
            Assert.Contains("The data file x.json cannot be read (", error.Message);
            Assert.Contains("); give a UTF-8 file in Tau's JSON form.", error.Message);
        }

        [Test]
        public void AByteOrderMarkIsNoFault()
        {
            var json = "\uFEFF" + (string)MadeUpData.Case["json"];
            Assert.Equal(9, MadeUpData.ReadFrom(json, MadeUpData.Archive()).Train.Count);
        }

        [Test]
        public void SplitsByName()
        {
            var data = MadeUpData.Read();
            Assert.True(ReferenceEquals(data.Train, data.Split("train")));
            Assert.True(ReferenceEquals(data.Evaluation, data.Split("evaluation")));
            Assert.Equal("evaluation", data.Evaluation.Name);
            var error = Assert.Throws<TauException>(() => data.Split("test"));
            Assert.Equal("There is no split `test`; use `train` or `evaluation`.", error.Message);
        }

        [Test]
        public void AnyTextOfTheVectorsFileCanBeLookedUp()
        {
            var data = MadeUpData.Read();
            Assert.True(data.TryGetVector("  WHAT is the colour\tof grass? ", out var vector));
            Assert.True(ReferenceEquals(vector, data.Train.Prompts[0]), "the same array, not a copy");
        }

        [Test]
        public void ParsedOnceEvenWhenEightThreadsAsk()
        {
            MadeUpData.InFolder(folder =>
            {
                var path = MadeUpData.Write(folder);
                var before = TauDataset.Parses;
                var loaded = new TauDataset[8];
                using (var start = new Barrier(loaded.Length))
                {
                    var threads = Enumerable.Range(0, loaded.Length).Select(number => Task.Factory.StartNew(
                        () =>
                        {
                            start.SignalAndWait();
                            loaded[number] = TauDataset.Load(path);
                        },
                        TaskCreationOptions.LongRunning)).ToArray();
                    Task.WaitAll(threads);
                }
                Assert.Equal(1, TauDataset.Parses - before);
                Assert.True(loaded[0] != null && loaded.Distinct().Count() == 1, "one data set for all");
                Assert.True(ReferenceEquals(
                    loaded[0], TauDataset.Load(Path.Combine(folder, ".", "made-up.json"))), "by file, not by spelling");
            });
        }

        [Test]
        public void AChangedFileIsParsedAgain()
        {
            MadeUpData.InFolder(folder =>
            {
                var path = MadeUpData.Write(folder);
                var first = TauDataset.Load(path);
                File.AppendAllText(path, "\n");
                var second = TauDataset.Load(path);
                Assert.True(!ReferenceEquals(first, second), "another JSON file");
                File.SetLastWriteTimeUtc(Path.Combine(folder, "made-up.vectors.npz"), new DateTime(2001, 2, 3));
                Assert.True(!ReferenceEquals(second, TauDataset.Load(path)), "another vector file");
                File.Delete(Path.Combine(folder, "made-up.vectors.npz"));
                Assert.Contains("have no embedding", Assert.Throws<TauException>(() => TauDataset.Load(path)).Message);
            });
        }

        [Test]
        public void AFailedLoadIsTriedAgain()
        {
            MadeUpData.InFolder(folder =>
            {
                var path = Path.Combine(folder, "made-up.json");
                Assert.Throws<TauException>(() => TauDataset.Load(path));
                MadeUpData.Write(folder);
                Assert.Equal(9, TauDataset.Load(path).Train.Count);
            });
        }

        [Test]
        public void AMissingFileIsNamedWithAHintAtOtherCase()
        {
            MadeUpData.InFolder(folder =>
            {
                var path = Path.Combine(folder, "MADE-up.json");
                Assert.Equal(
                    "There is no data file " + path + "; check the path.",
                    Assert.Throws<TauException>(() => TauDataset.Load(path)).Message);
                MadeUpData.Write(folder);
                if (File.Exists(path))
                {
                    return; // a file system that does not distinguish case finds it
                }
                Assert.Equal(
                    "There is no data file " + path
                    + " (there is made-up.json; upper and lower case matter); check the path.",
                    Assert.Throws<TauException>(() => TauDataset.Load(path)).Message);
            });
        }

        [Test]
        public void AFolderIsNoDataFile()
        {
            MadeUpData.InFolder(folder => Assert.Contains(
                "The data file " + folder + " cannot be read (",
                Assert.Throws<TauException>(() => TauDataset.Load(folder)).Message));
        }

        [Test]
        public void StreamsAreReadToTheirEndAndStayOpen()
        {
            var json = Encoding.UTF8.GetBytes("{\"training_data\": []}");
            using (var stream = new MemoryStream(json))
            {
                Assert.Throws<TauException>(() => TauDataset.Read(stream, null, "empty.json"));
                Assert.True(stream.CanRead, "the caller's stream stays open");
                Assert.Equal(json.Length, stream.Position, 0.0);
            }
        }

        private static void CheckRows(List<object> expected, TauSplit split, TauDataset data)
        {
            Assert.Equal(expected.Count, split.Count);
            for (var index = 0; index < split.Count; index++)
            {
                var row = (Dictionary<string, object>)expected[index];
                Assert.Equal((string)row["prompt"], split.PromptText[index]);
                Assert.Equal((string)row["answer"], split.AnswerText[index]);
                Assert.Equal((double)row["index"], split.AnswerIndex[index], 0.0, split.PromptText[index]);
                Assert.Equal((double)row["row"], split.Row[index], 0.0, split.PromptText[index]);
                Assert.Equal((string)row["domain"], split.Domain[index]);
                Assert.True(data.TryGetVector(split.PromptText[index], out var vector));
                Assert.True(ReferenceEquals(vector, split.Prompts[index]), "prompt " + index);
            }
        }
    }
}
