using System;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// One engine's life on ML-Agents' wire (communicator API 1.5.0): handshake, then a step for every reply, until one
    /// side says goodbye.
    /// </summary>
    internal sealed class LockstepEngine
    {
        private readonly EngineOptions _options;
        private readonly TauDataset _dataset;
        private readonly TrainerLink _link;
        private readonly EngineLog _log;
        private readonly SideChannels _channels;

        /// <summary>An engine that has not connected yet.</summary>
        /// <param name="options">What the command line says.</param>
        /// <param name="dataset">Loaded already, so that no trainer waits for bad data.</param>
        /// <param name="link">The way to the trainer.</param>
        /// <param name="log">Takes lines for a person.</param>
        public LockstepEngine(EngineOptions options, TauDataset dataset, TrainerLink link, EngineLog log)
        {
            _options = options;
            _dataset = dataset;
            _link = link;
            _log = log;
            _channels = new SideChannels(log);
        }

        /// <summary>Play until the trainer or the user ends it; a trainer that is gone is a normal end.</summary>
        /// <exception cref="TauException">There is no trainer, or one that cannot be followed.</exception>
        public void Run()
        {
            try
            {
                var trainer = Handshake();
                if (trainer != null)
                {
                    Play(trainer);
                }
            }
            catch (TrainerGoneException error)
            {
                _log.Write($"the trainer is gone ({error.Message}); this engine ends");
            }
            catch (OperationCanceledException)
            {
                _link.Goodbye();
                _log.Write("stopped by the user");
            }
        }

        /// <summary>Calls 1 and 2; null where the trainer wants no engine after all.</summary>
        private TrainerMessage Handshake()
        {
            _log.Write($"connecting to the trainer on localhost:{_options.Port}");
            var first = new TrainerMessage(TauGame.Behavior, 0);
            first.Read(_link.Connect(EngineMessages.Introduction(), _options.ConnectPatience));
            if (Ended(first))
            {
                return null;
            }

            if (!first.HasInitialization || first.Version.Split('.')[0] != EngineMessages.Version.Split('.')[0])
            {
                var theirs = first.HasInitialization ? $"communicator API {first.Version}" : "another protocol";
                throw new TauException(
                    $"The trainer speaks {theirs} and this engine communicator API {EngineMessages.Version}; " +
                    "their first numbers must agree.");
            }

            var second = new TrainerMessage(TauGame.Behavior, 0);
            second.Read(_link.Exchange(EngineMessages.Ready()));
            if (Ended(second))
            {
                return null;
            }

            if (!second.HasInput)
            {
                throw new TauException(
                    "The trainer's second reply holds no input, so it speaks another protocol; use a trainer of " +
                    $"communicator API {EngineMessages.Version}.");
            }

            _channels.Receive(second.SideChannel);
            return first;
        }

        private void Play(TrainerMessage trainer)
        {
            using (var game = new TauGame(_options.Tau, _dataset, _channels.Parameters, trainer, _log))
            {
                if (_options.ReportFile != null)
                {
                    game.Decisions = new DecisionLog(_options.ReportFile, _dataset, game.ActionSize);
                }

                _log.Write($"playing tau with {game.Pairs} pairs");
                var messages = new EngineMessages(
                    TauGame.Behavior, TauProfile.EmbeddingSize, game.ActionSize, game.TargetSensor);
                var reply = new TrainerMessage(TauGame.Behavior, game.ActionSize);
                do
                {
                    var records = game.Collect();
                    var request = messages.Step(records, _channels.Send(game.TakeStats()));
                    reply.Read(_link.Exchange(request));
                }
                while (!Ended(reply) && Follow(reply, game));
            }
        }

        /// <summary>Do what the trainer asks, in Unity's order: side channel, command, actions.</summary>
        private bool Follow(TrainerMessage reply, TauGame game)
        {
            var changed = _channels.Receive(reply.SideChannel);
            if (reply.Command == TrainerCommand.Reset)
            {
                game.Reset();
                return true;
            }

            if (changed)
            {
                game.Follow();
            }

            game.Answer(reply);
            return true;
        }

        private bool Ended(TrainerMessage reply)
        {
            if (!reply.GoesOn)
            {
                _log.Write($"the trainer closed the connection (status {reply.Status}); this engine ends");
            }

            return !reply.GoesOn;
        }
    }
}
