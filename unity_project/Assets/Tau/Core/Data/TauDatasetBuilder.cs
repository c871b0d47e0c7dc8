using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>Makes a data set of pairs whose prompts are distinct; those without embedding are skipped.</summary>
    internal sealed class TauDatasetBuilder
    {
        private readonly VectorTable _table;
        private readonly string _source;
        private readonly List<Problem> _problems;

        public TauDatasetBuilder(VectorTable table, string source, List<Problem> problems)
        {
            _table = table;
            _source = source;
            _problems = problems;
        }

        /// <summary>The data set.</summary>
        /// <exception cref="TauException">No training pair has embeddings for both of its texts.</exception>
        public TauDataset Build(List<TauPair> training, List<TauPair> evaluation)
        {
            training = training.FindAll(HasEmbeddings);
            evaluation = evaluation.FindAll(HasEmbeddings);
            if (training.Count == 0)
            {
                throw new TauException(SkippedRows.NothingLeft(_source, _problems));
            }
            var answers = Vocabulary(training, evaluation, out var known);
            var index = new Dictionary<string, int>(StringComparer.Ordinal);
            for (var position = 0; position < answers.Length; position++)
            {
                index.Add(TextKey.Of(answers[position]), position);
            }
            return new TauDataset(
                _source,
                _table,
                answers,
                known,
                Split("train", training, index),
                Split("evaluation", evaluation, index),
                _problems.AsReadOnly());
        }

        private bool HasEmbeddings(TauPair pair)
        {
            var prompt = _table.TryGet(pair.PromptKey, out _);
            var answer = _table.TryGet(pair.AnswerKey, out _);
            if (prompt && answer)
            {
                return true;
            }
            var named = prompt ? PythonText.Repr(pair.Answer)
                : answer ? PythonText.Repr(pair.Prompt)
                : PythonText.Repr(pair.Prompt) + " and " + PythonText.Repr(pair.Answer);
            var verb = prompt || answer ? "has" : "have";
            _problems.Add(new Problem(pair.Section, pair.Row, "missing", named + " " + verb + " no embedding"));
            return false;
        }

        /// <summary>Distinct answers as first written, training answers first, both in key order.</summary>
        private static string[] Vocabulary(List<TauPair> training, List<TauPair> evaluation, out int known)
        {
            var first = FirstWritten(training, null);
            var later = FirstWritten(evaluation, first);
            known = first.Count;
            return first.Values.Concat(later.Values).ToArray();
        }

        private static SortedDictionary<string, string> FirstWritten(
            List<TauPair> pairs, SortedDictionary<string, string> without)
        {
            var answers = new SortedDictionary<string, string>(TextKey.Order);
            foreach (var pair in pairs)
            {
                if (!answers.ContainsKey(pair.AnswerKey) && (without == null || !without.ContainsKey(pair.AnswerKey)))
                {
                    answers.Add(pair.AnswerKey, pair.Answer);
                }
            }
            return answers;
        }

        private TauSplit Split(string name, List<TauPair> pairs, Dictionary<string, int> index)
        {
            var split = new TauSplit(name, pairs.Count);
            for (var position = 0; position < pairs.Count; position++)
            {
                var pair = pairs[position];
                _table.TryGet(pair.PromptKey, out split.Prompts[position]);
                split.AnswerIndex[position] = index[pair.AnswerKey];
                split.PromptText[position] = pair.Prompt;
                split.AnswerText[position] = pair.Answer;
                split.Domain[position] = pair.Domain;
                split.Row[position] = pair.Row;
            }
            return split;
        }
    }
}
