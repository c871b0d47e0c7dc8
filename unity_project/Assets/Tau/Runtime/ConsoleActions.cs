using System;
using System.Collections.Generic;
using System.Globalization;
using Tau.Core;

namespace Tau
{
    /// <summary>Does what is typed at a console, with the parts of the game that can do it.</summary>
    internal sealed class ConsoleActions : IDisposable
    {
        private readonly TauConsole _console;
        private ParallelTrainerManager _manager;
        private TauAnswerer _answerer;
        private HeldOutEvaluation _evaluation;

        /// <summary>What this console can do.</summary>
        public ConsoleActions(TauConsole console)
        {
            _console = console;
        }

        /// <summary>Does what a command says, or begins to.</summary>
        /// <exception cref="TauException">It cannot be done; the sentence says why.</exception>
        public void Execute(ConsoleCommand command)
        {
            switch (command)
            {
                case TrainCommand train:
                    Manager().StartTraining(OptionsOf(train));
                    _console.Print("Training; `training status` shows how it goes.");
                    break;
                case StatusCommand _:
                    _console.Print(Manager().Status());
                    break;
                case CancelCommand _:
                    Cancel();
                    break;
                case AskCommand ask:
                    Answerer().Ask(ask.Question, answer => _console.Print(answer.ToText()), Show);
                    break;
                case EvaluateCommand _:
                    Evaluate();
                    break;
                case HelpCommand help:
                    _console.Print(help.Text);
                    break;
                default:
                    throw new ArgumentException($"no action for {command.GetType().Name}", nameof(command));
            }
        }

        /// <summary>How things go, in one line; empty: nothing goes on.</summary>
        public string Headline()
        {
            if (_evaluation != null)
            {
                return FormattableString.Invariant($"Tau: {_evaluation.Done} of {_evaluation.Total} held-out rows");
            }
            if (!FindManager() || !_manager.IsRunning)
            {
                return "";
            }
            CentralReport report = _manager.Report;
            if (report.Decisions == 0)
            {
                return FormattableString.Invariant($"Tau: {report.Pairs.Count} pairs, no decision yet");
            }
            return FormattableString.Invariant(
                $"Tau: {report.Pairs.Count} pairs, {report.Decisions} decisions, ")
                + FormattableString.Invariant($"mean reward {report.MeanReward:+0.000;-0.000;0.000}, ")
                + FormattableString.Invariant($"right answers {100.0 * report.Accuracy:0.0} %");
        }

        /// <summary>Lets go of what it listened to.</summary>
        public void Dispose()
        {
            if (_manager != null)
            {
                _manager.Finished -= ShowReport;
            }
            _manager = null;
        }

        private static TauOptions OptionsOf(TrainCommand train)
        {
            var arguments = new List<string> { "--tau-data=" + train.File, "--tau-pairs=" + Text(train.Agents) };
            if (train.MaxConcurrent.HasValue)
            {
                arguments.Add("--tau-max-concurrent=" + Text(train.MaxConcurrent.Value));
            }
            if (train.Profile != null)
            {
                arguments.Add("--tau-profile=" + train.Profile);
            }
            if (train.Decisions.HasValue)
            {
                arguments.Add("--tau-decisions=" + Text(train.Decisions.Value));
            }
            return TauOptions.Parse(arguments);
        }

        private static string Text(long value)
        {
            return value.ToString(CultureInfo.InvariantCulture);
        }

        private void Cancel()
        {
            if (!Manager().Cancel())
            {
                throw new TauException(
                    "No training runs, so there is nothing to cancel; "
                    + "start one with `training agent tau FILE --agents N`.");
            }
        }

        private void Evaluate()
        {
            if (_evaluation != null)
            {
                throw new TauException("An evaluation runs already; wait until it is through.");
            }
            _evaluation = Answerer().Evaluate(ShowResult, ShowFailure);
            _console.Print(FormattableString.Invariant($"Showing the model {_evaluation.Total} held-out rows ..."));
        }

        private void ShowResult(HeldOutEvaluation evaluation)
        {
            _evaluation = null;
            _console.Print(evaluation.ToText());
        }

        private void ShowFailure(TauException mistake)
        {
            _evaluation = null;
            Show(mistake);
        }

        private void Show(TauException mistake)
        {
            _console.PrintMistake(mistake.Message);
        }

        private void ShowReport(CentralReport report)
        {
            if (_manager.Mistake != null)
            {
                _console.PrintMistake(_manager.Mistake);
            }
            _console.Print(report.ToText());
        }

        private ParallelTrainerManager Manager()
        {
            if (!FindManager())
            {
                _console.gameObject.AddComponent<ParallelTrainerManager>();
                FindManager();
            }
            return _manager;
        }

        private bool FindManager()
        {
            if (_manager == null)
            {
                _manager = ParallelTrainerManager.FindExisting();
                if (_manager != null)
                {
                    _manager.Finished += ShowReport;
                }
            }
            return _manager != null;
        }

        private TauAnswerer Answerer()
        {
            if (_answerer == null)
            {
                _answerer = SceneSearch.Find<TauAnswerer>();
            }
            if (_answerer == null)
            {
                _answerer = _console.gameObject.AddComponent<TauAnswerer>();
            }
            return _answerer;
        }
    }
}
