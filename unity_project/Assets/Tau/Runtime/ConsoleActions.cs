using System;
using System.Threading.Tasks;
using Tau.Core;

namespace Tau
{
    /// <summary>Executes console commands with the parts of the game.</summary>
    internal sealed class ConsoleActions : IDisposable
    {
        private readonly TauConsole _console;
        private ParallelTrainerManager _manager;
        private HeldOutEvaluation _evaluation;

        /// <summary>The actions of a console.</summary>
        public ConsoleActions(TauConsole console)
        {
            _console = console;
        }

        /// <summary>Executes a command, or starts to.</summary>
        /// <exception cref="TauException">The command failed; the sentence says why.</exception>
        public void Execute(ConsoleCommand command)
        {
            switch (command)
            {
                case TrainCommand train:
                    Manager().StartTraining(train.Options);
                    _console.Print("Training; `training status` shows the progress.");
                    break;
                case StatusCommand _:
                    _console.Print(Manager().Status());
                    break;
                case CancelCommand _:
                    Cancel();
                    break;
                case AskCommand ask:
                    _ = ShownAsync(AskAsync(ask.Question));
                    break;
                case EvaluateCommand _:
                    _ = ShownAsync(EvaluateAsync());
                    break;
                case HelpCommand help:
                    _console.Print(help.Text);
                    break;
            }
        }

        /// <summary>The progress in one line; empty if nothing runs.</summary>
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
            return report.All.Decisions == 0
                ? FormattableString.Invariant($"Tau: {report.Pairs.Count} pairs, no decision yet")
                : FormattableString.Invariant($"Tau: {report.Pairs.Count} pairs, {report.All.Decisions} decisions, ")
                + FormattableString.Invariant($"mean reward {report.All.MeanReward:+0.000;-0.000;0.000}, ")
                + FormattableString.Invariant($"right answers {100.0 * report.All.Accuracy:0.0} %");
        }

        /// <summary>Unsubscribes from events.</summary>
        public void Dispose()
        {
            if (_manager != null)
            {
                _manager.Finished -= ShowReport;
            }
            _manager = null;
        }

        private void Cancel()
        {
            if (!Manager().Cancel())
            {
                throw new TauException(
                    "No training is running; "
                    + "start one with `training agent tau FILE --agents N`.");
            }
        }

        private async Task AskAsync(string question)
        {
            TauAnswer answer = await Answerer().AskAsync(question);
            _console.Print(answer.ToText());
        }

        private async Task EvaluateAsync()
        {
            if (_evaluation != null)
            {
                throw new TauException("An evaluation is already running; wait until it has ended.");
            }
            TauAnswerer answerer = Answerer();
            _evaluation = answerer.MakeEvaluation();
            _console.Print(FormattableString.Invariant($"Showing the model {_evaluation.Total} held-out rows ..."));
            try
            {
                await answerer.EvaluateAsync(_evaluation);
                _console.Print(_evaluation.ToText());
            }
            finally
            {
                _evaluation = null;
            }
        }

        /// <summary>Runs a long command without blocking; shows its errors.</summary>
        private async Task ShownAsync(Task work)
        {
            try
            {
                await work;
            }
            catch (TauException mistake)
            {
                _console.PrintMistake(mistake.Message);
            }
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
                _manager = SceneSearch.Find<ParallelTrainerManager>();
                if (_manager != null)
                {
                    _manager.Finished += ShowReport;
                }
            }
            return _manager != null;
        }

        private TauAnswerer Answerer()
        {
            TauAnswerer answerer = SceneSearch.Find<TauAnswerer>();
            return answerer != null ? answerer : _console.gameObject.AddComponent<TauAnswerer>();
        }
    }
}
